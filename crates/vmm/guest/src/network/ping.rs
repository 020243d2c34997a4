//! Frames of ICMP echo behind virtio's header.

/// `struct virtio_net_hdr_v1`: no offloads, so zeroes (virtio 1.2, 5.1.6).
pub const HEADER: usize = 12;
const ETHERNET: usize = 14;
const IP: usize = 20;
const ICMP: usize = 8;
/// What ping(8) sends but for its time stamp: 56 bytes of data.
const DATA: usize = 56;

/// Bytes of a ping's frame, without virtio's header.
pub const FRAME: usize = ETHERNET + IP + ICMP + DATA;

/// The guest's address and its peer's: of RFC 5737's first block, and MAC addresses that
/// are locally administered.
pub const GUEST: [u8; 4] = [192, 0, 2, 1];
/// The peer's.
pub const PEER: [u8; 4] = [192, 0, 2, 2];
const GUEST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

const AT_ICMP: usize = HEADER + ETHERNET + IP;
const AT_SEQUENCE: usize = AT_ICMP + 6;

/// The Internet checksum (RFC 1071); 0 over what holds its own.
///
/// ```
/// // RFC 1071, section 3: the sum is 0xddf2, and the checksum its complement.
/// let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(guest::network::ping::checksum(&bytes), !0xddf2);
/// ```
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A request with this sequence number, behind virtio's header.
pub fn request(sequence: u16) -> [u8; HEADER + FRAME] {
    let mut frame = [0; HEADER + FRAME];
    let (ethernet, rest) = frame[HEADER..].split_at_mut(ETHERNET);
    ethernet[..6].copy_from_slice(&PEER_MAC);
    ethernet[6..12].copy_from_slice(&GUEST_MAC);
    ethernet[12] = 0x08;
    let (ip, icmp) = rest.split_at_mut(IP);
    let length = (IP + ICMP + DATA) as u16;
    // Version 4, five words; not to be fragmented; 64 hops; ICMP.
    (ip[0], ip[6], ip[8], ip[9]) = (0x45, 0x40, 64, 1);
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[12..16].copy_from_slice(&GUEST);
    ip[16..20].copy_from_slice(&PEER);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    icmp[0] = 8;
    icmp[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = checksum(icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The sequence number of a whole reply to this guest.
pub fn reply(bytes: &[u8]) -> Option<u16> {
    let icmp = bytes.get(AT_ICMP..)?;
    let is_ours = bytes.len() == HEADER + FRAME
        && bytes[HEADER..HEADER + 6] == GUEST_MAC
        && bytes[AT_ICMP - 4..AT_ICMP] == GUEST
        && icmp[..2] == [0, 0]
        && checksum(icmp) == 0;
    is_ours.then(|| u16::from_be_bytes([bytes[AT_SEQUENCE], bytes[AT_SEQUENCE + 1]]))
}
