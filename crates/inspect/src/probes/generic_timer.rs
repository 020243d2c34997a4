//! What arm64's generic timer states of itself, as text.

use facts::Fact;
use facts::cpu;
use linux::counter;

/// The fields of [`facts::cpu::parse_generic_timer`].
pub(crate) fn registers() -> Fact<String> {
    if !cfg!(target_arch = "aarch64") {
        return cpu::not_arm64().map(|_| String::new());
    }
    let is_readable = counter::is_readable();
    let hz = counter::frequency().filter(|_| is_readable).map_or(0, |hertz| hertz.0);
    Fact::Known(format!(
        "frequency_hz {hz}\nreadable {}\nself_synchronised {}\n",
        u8::from(is_readable),
        u8::from(counter::is_self_ordered()),
    ))
}
