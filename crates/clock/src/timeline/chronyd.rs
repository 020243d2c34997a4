//! chronyd's own word on how far the system's clock may be from UTC.
//!
//! chronyd tells the kernel a bound too, which adjtimex shows, but a poorer
//! one (chrony 4: `REF_SetReference` in reference.c, `set_sync_status` in
//! sys_timex.c): the kernel adds 500 ppm of the time since the last update,
//! half a second after an usual poll of 1024 s; what chronyd is still slewing
//! away is not in it; and without `rtcsync` in its configuration the clock
//! counts as not synchronised. What it answers to `chronyc tracking` has all
//! that it knows, as of the answer. Of this the manual (chronyc(1), "Root
//! dispersion") makes the bound that is made here: the offset left to correct,
//! the root dispersion, and half the root delay. It grows by what chronyd does
//! not know of the frequency: the residual frequency, the skew, and the 1 ppm
//! by which it takes a clock to wander by itself (`maxclockerror`).
//!
//! Requests and replies are datagrams of 104 bytes, big-endian:
//!
//! | at | request | reply |
//! | --- | --- | --- |
//! | 0 | 6: the version; 1: a request | 6, 2 |
//! | 4 | 33: tracking | 33; 5: of tracking; status |
//! | 8, 16 | sequence number at 8 | the same at 16 |
//! | 28 | zeroes, as long as the reply | reference ID, address, stratum |
//! | 54 | | leap status, 3 for not synchronised |
//! | 56 | | last update: s high, s low, ns |
//! | 68 | | offset left to correct |
//! | 84, 88 | | residual frequency and skew, ppm |
//! | 92, 96 | | root delay, root dispersion |
//!
//! A number is 7 bits of exponent `e` and 25 of coefficient `c`, both two's
//! complement: *c · 2^(e − 25)*, seconds unless said otherwise.

/// Bytes of a request, and of a reply.
pub const BYTES: usize = 104;

const VERSION: u8 = 6;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const TRACKING: u16 = 33;
const OF_TRACKING: u16 = 5;
const NOT_SYNCHRONISED: u16 = 3;
/// The reference ID of a chronyd that serves its own clock (`local`).
const LOCAL: u32 = 0x7f7f_0101;

/// `maxclockerror` as it is unless the configuration says otherwise.
const WANDER_PPB: u64 = 1_000;

/// What chronyd says of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracking {
    /// How far the clock may be off as of the reply, ns; `None` while it
    /// follows no source.
    pub error_ns: Option<u64>,
    /// How fast that grows while chronyd goes on steering, ppb.
    pub growth_ppb: u64,
    /// When it was last updated, ns since 1970 by its own telling: another
    /// one means that it has heard from a source meanwhile.
    pub updated_ns: u128,
}

/// Why a datagram is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// It has another length than a reply.
    Length(usize),
    /// It is none of this protocol: its version and kind.
    Version(u8, u8),
    /// To another request: its sequence number.
    Sequence(u32),
    /// Not of tracking, or refused: its command, its reply's kind, its status.
    Refused(u16, u16, u16),
}

/// The request for tracking data.
pub const fn request(sequence: u32) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[0] = VERSION;
    bytes[1] = REQUEST;
    bytes[5] = TRACKING as u8;
    let [a, b, c, d] = sequence.to_be_bytes();
    (bytes[8], bytes[9], bytes[10], bytes[11]) = (a, b, c, d);
    bytes
}

/// What a datagram says that came after the request with this number.
///
/// # Errors
/// It is no answer to that.
pub fn parse(datagram: &[u8], sequence: u32) -> Result<Tracking, NoAnswer> {
    let reply: &[u8; BYTES] = datagram.try_into().map_err(|_| NoAnswer::Length(datagram.len()))?;
    if (reply[0], reply[1]) != (VERSION, REPLY) {
        return Err(NoAnswer::Version(reply[0], reply[1]));
    }
    if u32_at(reply, 16) != sequence {
        return Err(NoAnswer::Sequence(u32_at(reply, 16)));
    }
    let head = (u16_at(reply, 4), u16_at(reply, 6), u16_at(reply, 8));
    if head != (TRACKING, OF_TRACKING, 0) {
        return Err(NoAnswer::Refused(head.0, head.1, head.2));
    }
    let vouched = !matches!(u32_at(reply, 28), 0 | LOCAL)
        && u16_at(reply, 52) > 0
        && u16_at(reply, 54) < NOT_SYNCHRONISED;
    let [offset, delay, dispersion] = [68, 92, 96].map(|at| away_nanos(u32_at(reply, at)));
    let [residual, skew] = [84, 88].map(|at| away_nanos(u32_at(reply, at)).div_ceil(1_000_000));
    let error_ns = offset.saturating_add(dispersion).saturating_add(delay.div_ceil(2));
    let updated_s = u128::from(u32_at(reply, 56)) << 32 | u128::from(u32_at(reply, 60));
    Ok(Tracking {
        error_ns: vouched.then_some(error_ns),
        growth_ppb: WANDER_PPB.saturating_add(residual).saturating_add(skew),
        updated_ns: updated_s * 1_000_000_000 + u128::from(u32_at(reply, 64)),
    })
}

/// How far a number is from 0, in billionths, rounded up.
fn away_nanos(number: u32) -> u64 {
    let exponent = (number.cast_signed() >> 25) - 25;
    let coefficient = (number << 7).cast_signed() >> 7;
    // Less than 2^55, and 38 the most that it is moved up by.
    let nanos = u128::from(coefficient.unsigned_abs()) * 1_000_000_000;
    let moved = if exponent < 0 {
        nanos.div_ceil(1 << exponent.unsigned_abs())
    } else {
        nanos << exponent.unsigned_abs()
    };
    u64::try_from(moved).unwrap_or(u64::MAX)
}

fn u16_at(reply: &[u8; BYTES], at: usize) -> u16 {
    u16::from_be_bytes([reply[at], reply[at + 1]])
}

fn u32_at(reply: &[u8; BYTES], at: usize) -> u32 {
    u32::from(u16_at(reply, at)) << 16 | u32::from(u16_at(reply, at + 2))
}

#[cfg(test)]
mod tests;
