//! What Rust knows of the structures in the header, written in C.

use std::fmt::Write;

use pvclock_c::hyperv::PvclockHypervInfo;
use pvclock_c::kvm_clock::PvclockScale;
use pvclock_c::kvm_clock::{PvclockKvmInfo, PvclockKvmUpdate, PvclockLastTime, PvclockWallClock};
use pvclock_c::status::PvclockStatus;
use pvclock_c::steal_time::PvclockStealInfo;
use pvclock_c::vmclock::{PvclockVmclockInfo, PvclockVmclockTime};

/// A line of C for the size and each field of a structure. The pattern names
/// every field, so that none can be left out.
macro_rules! assert_structure {
    ($c:ident, $rust:ident is $name:literal with $($field:ident),+) => {
        let _ = |$rust { $($field: _),+ }: $rust| ();
        assert_that($c, &format!("sizeof(struct {})", $name), size_of::<$rust>());
        assert_that($c, &format!("_Alignof(struct {})", $name), align_of::<$rust>());
        $(
            let offset = format!("offsetof(struct {}, {})", $name, stringify!($field));
            assert_that($c, &offset, std::mem::offset_of!($rust, $field));
        )+
    };
}

fn assert_that(c: &mut String, what: &str, is: usize) {
    writeln!(c, "_Static_assert({what} == {is}, \"{what} is {is} in Rust\");").unwrap();
}

/// A translation unit that compiles if C agrees.
pub(crate) fn assertions() -> String {
    let mut text = "#include <stddef.h>\n#include \"pvclock.h\"\n".to_owned();
    let c = &mut text;
    assert_that(c, "sizeof(enum pvclock_status)", size_of::<PvclockStatus>());
    assert_structure!(c, PvclockScale is "pvclock_scale" with mul, shift);
    assert_structure!(
        c, PvclockKvmInfo is "pvclock_kvm_info"
        with tsc_timestamp, system_time_ns, scale, version, flags
    );
    assert_structure!(
        c, PvclockKvmUpdate is "pvclock_kvm_update"
        with tsc_timestamp, system_time_ns, scale, stable
    );
    assert_structure!(c, PvclockLastTime is "pvclock_last_time" with ns);
    assert_structure!(c, PvclockWallClock is "pvclock_wall_clock" with seconds, nanoseconds);
    assert_structure!(
        c, PvclockHypervInfo is "pvclock_hyperv_info" with scale, offset_100ns, sequence
    );
    assert_structure!(
        c, PvclockStealInfo is "pvclock_steal_info"
        with steal_ns, version, flags, preempted, flush_tlb
    );
    assert_structure!(
        c, PvclockVmclockInfo is "pvclock_vmclock_info"
        with disruption_marker, flags, counter_value, period, period_est_error,
        period_max_error, time_sec, time_frac, time_est_error_ns, time_max_error_ns,
        vm_generation, size, seq_count, tai_offset_s, counter_id, time_type,
        clock_status, leap_smearing_hint, leap_indicator, period_shift
    );
    assert_structure!(
        c, PvclockVmclockTime is "pvclock_vmclock_time"
        with seconds, fraction, max_error_ns, nanoseconds, info
    );
    text
}
