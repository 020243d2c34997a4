//! The prime-counting load of `sysbench cpu`, so that figures compare.

/// sysbench's own default for the largest candidate.
pub const SYSBENCH_MAX_PRIME: u64 = 10_000;

/// One event: counts the primes from 3 up to, not including, `max_prime`,
/// dividing each candidate by every number from 2 to its square root, which
/// is taken in floating point, all as sysbench does; the work is the point.
pub fn event(max_prime: u64) -> u64 {
    let mut primes = 0;
    for candidate in 3..max_prime {
        let root = (candidate as f64).sqrt();
        let mut divisor = 2u64;
        while divisor as f64 <= root && candidate % divisor != 0 {
            divisor += 1;
        }
        if divisor as f64 > root {
            primes += 1;
        }
    }
    primes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_counted_from_three() {
        assert_eq!(event(3), 0);
        assert_eq!(event(12), 4); // 3, 5, 7, 11
        assert_eq!(event(SYSBENCH_MAX_PRIME), 1228); // 1229 primes below 10 000, less 2
    }
}
