use super::*;

/// A reply of ntpd of ntpsec 1.2.2 (Debian 12), which had polled a chronyd next to it: the
/// peer's variables. Each list begins with bytes of no meaning.
const NTPSEC: &str = "d6820003b61a456700000163726f6f7464656c61793d302e3030302c20726f6f74646973703d302e\
     3030302c207265633d307865656230363430352e31363864356666302c0d0a66696c7464656c6179\
     3d6018f68afc7f20302e303420302e303420302e303420302e303520302e303420302e303420302e\
     303420302e30342c0d0a66696c746f66667365743d6018f68afc7f20302e303420302e303420302e\
     303420302e303520302e303420302e303420302e303420302e303420302e303120302e303120302e\
     303120302e303020302e303120302e303120302e303120302e30312c0d0a66696c74646973703d60\
     18f68afc7f20302e303420302e303420302e303420302e303520302e303420302e303420302e3034\
     20302e303420302e303120302e303120302e303120302e303020302e303120302e303120302e3031\
     20302e303120302e303020302e313520302e333020302e333620302e333920302e343220302e3435\
     20302e34380d0a00";

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// As `ntpq -c "rv &1 filtoffset,filtdelay,filtdisp"` shows them of the same daemon.
#[test]
fn the_newest_measurement_of_a_real_ntpsec_is_read() {
    let variables = parse(&bytes(NTPSEC), 3).unwrap().unwrap();
    // 0xeeb06405 is 4004537349 s since 1900: 2026-11-24 19:29:09 UTC.
    let now_s = 1_795_548_550.919;
    let DaemonTracking { offset_s, bound_s, age_s, .. } = of_peer(&variables, now_s).unwrap();
    assert!((offset_s - 1e-5).abs() < 1e-12, "{offset_s}");
    let age_s = age_s.unwrap();
    assert!((age_s - 1.831).abs() < 0.001, "{age_s}");
    // Half of 0.04 ms, what the clocks may drift in 1.8 s, and what was rounded away.
    assert!((bound_s - (2e-5 + 27.5e-6 + 2e-5)).abs() < 1e-7, "{bound_s}");
}

/// As the documentation of ntpq has it, of an ntpd 4.2.8.
#[test]
fn lists_of_eight_and_in_quotes_are_read() {
    let text = "rootdelay=12.5, rootdisp=30.1, rec=0xeeb06405.00000000,\r\n\
                filtdelay=    21.30   20.10   22.00   21.00   21.00   21.00   21.00   21.00,\r\n\
                filtoffset= -2500.13    0.10    0.12    0.10    0.10    0.10    0.10    0.10,\r\n\
                filtdisp=\"0.05 1.10 2.10 3.10 4.10 5.10 6.10 7.10\"\r\n";
    let mut packet = vec![CONTROL | 3 << 6, RESPONSE | READ_VARIABLES, 0, 2, 0, 0, 0, 9, 0, 0];
    packet.extend((text.len() as u16).to_be_bytes());
    packet.extend(text.as_bytes());
    let variables = parse(&packet, 2).unwrap().unwrap();
    let followed = of_peer(&variables, 4_004_537_349.0 - UNIX_EPOCH_S + 10.0).unwrap();
    assert!((followed.offset_s + 2.500_13).abs() < 1e-9, "{followed:?}");
    // 21.3 / 2 + 0.05 + 12.5 / 2 + 30.1 ms, 150 us of drift, 20 us.
    assert!((followed.bound_s - 0.047_22).abs() < 1e-6, "{followed:?}");
    // Another's, an error, and a part of a longer one.
    assert!(parse(&packet, 3).is_none());
    packet[1] |= ERROR;
    assert!(parse(&packet, 2).unwrap().is_err());
    packet[1] ^= ERROR | MORE;
    assert!(parse(&packet, 2).unwrap().is_err());
    assert!(parse(&[], 2).is_none());
}

#[test]
fn a_request_is_what_ntpq_sends() {
    // Version 2 and mode 6, read variables, sequence 1, status 0, association 0, offset 0,
    // 4 bytes of data.
    assert_eq!(request(1, 0, "peer"), bytes("16020001000000000000000470656572"));
}
