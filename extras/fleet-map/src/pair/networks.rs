//! The networks that are answered.

use std::net::IpAddr;
use std::str::FromStr;

/// So many can be named.
const MOST: usize = 256;

/// A list of networks, by their prefixes; of none, nobody is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<(IpAddr, u8)>);

impl FromStr for Networks {
    type Err = String;

    /// `10.0.0.0/8,2001:db8::/32`, or addresses.
    fn from_str(text: &str) -> Result<Self, String> {
        let networks: Vec<_> = text.split(',').map(network).collect::<Result<_, _>>()?;
        if networks.len() > MOST {
            Err(format!("more than {MOST} networks"))
        } else {
            Ok(Self(networks))
        }
    }
}

fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || format!("expected a network such as 10.0.0.0/8, found {text:?}");
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let (bits, whole) = bits(address);
    let length = length.unwrap_or(whole);
    // Bits beyond the prefix are a slip of the pen: which network was meant?
    let rest = if length >= whole { 0 } else { bits << length << (128 - whole) };
    if length > whole || rest != 0 { Err(wrong()) } else { Ok((address, length)) }
}

impl Networks {
    /// Whether an address is in one of them.
    pub fn contain(&self, address: IpAddr) -> bool {
        let (asked, length) = bits(address.to_canonical());
        self.0.iter().any(|(network, prefix)| {
            let (bits, whole) = bits(*network);
            // No shift by all bits.
            let away = (bits ^ asked).checked_shr(u32::from(whole - prefix)).unwrap_or(0);
            whole == length && away == 0
        })
    }
}

/// An address as a number, and its length in bits.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_networks_or_not() {
        let networks: Networks = "10.0.0.0/8,192.0.2.7,2001:db8::/32".parse().unwrap();
        for inside in ["10.255.0.1", "192.0.2.7", "2001:db8:1::1", "::ffff:10.0.0.1"] {
            assert!(networks.contain(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.1", "192.0.2.6", "2001:db9::1", "::1"] {
            assert!(!networks.contain(outside.parse().unwrap()), "{outside}");
        }
        assert!("0.0.0.0/0".parse::<Networks>().unwrap().contain("8.8.8.8".parse().unwrap()));
        assert!("::/0".parse::<Networks>().unwrap().contain("::1".parse().unwrap()));
        assert!(!Networks::default().contain("127.0.0.1".parse().unwrap()));
        for wrong in ["", "10.0.0.0/33", "10.0.0.1/8", "x", "10.0.0.0/", "::1/127,", "::/129"] {
            assert!(wrong.parse::<Networks>().is_err(), "{wrong}");
        }
    }
}
