//! The host on the other side: it answers ICMP echo requests, whoever they are for.

use guest::network::ping::checksum;

const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IP: usize = 20;
const ICMP: u8 = 1;
const REQUEST: u8 = 8;

/// The reply to a frame, if that is a whole echo request (RFC 792, RFC 1122 3.2.2.6) in
/// one IPv4 packet without options.
///
/// ```
/// use guest::network::ping::{HEADER, request};
/// use vmm::devices::network::echo;
///
/// let frame = &request(7)[HEADER..];
/// let reply = echo::reply(frame).unwrap();
/// assert_eq!((reply[..6].to_vec(), reply[34]), (frame[6..12].to_vec(), 0));
/// assert_eq!(echo::reply(&reply), None, "a reply is not answered");
/// ```
pub fn reply(frame: &[u8]) -> Option<Vec<u8>> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET)?;
    let (ip, _) = packet.split_at_checked(IP)?;
    let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    // Don't-fragment is all that may be set: no part of a packet is answered.
    let is_whole = ip[6] & 0x3f == 0 && ip[7] == 0;
    let is_icmp = ethernet[12..] == IPV4 && ip[0] == 0x45 && ip[9] == ICMP;
    if !is_icmp || !is_whole || checksum(ip) != 0 {
        return None;
    }
    let icmp = packet.get(IP..length).filter(|icmp| icmp.len() >= 8)?;
    if icmp[..2] != [REQUEST, 0] || checksum(icmp) != 0 {
        return None;
    }
    // The other way, so that the sums of the addresses stay.
    let mut reply = [&ethernet[6..12], &ethernet[..6], &IPV4, ip, icmp].concat();
    let (addresses, body) = (ETHERNET + 12, ETHERNET + IP);
    reply[addresses..addresses + 4].copy_from_slice(&ip[16..20]);
    reply[addresses + 4..body].copy_from_slice(&ip[12..16]);
    (reply[body], reply[body + 2], reply[body + 3]) = (0, 0, 0);
    let sum = checksum(&reply[body..]);
    reply[body + 2..body + 4].copy_from_slice(&sum.to_be_bytes());
    Some(reply)
}
