//! Frequencies and scales. No pointer to a page here; the invariants are
//! those of [`crate::abi`].
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

use pvclock::{Hertz, Scale};

use super::put;
use crate::kvm_clock::PvclockScale;
use crate::status::PvclockStatus;

/// The scale of a counter that runs at `hz`, from 1 kHz to 2^40 Hz. It is
/// never fast, and slow by less than 2^-31 (0.47 ppb).
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn pvclock_scale_from_hz(
    hz: u64,
    scale: Option<&mut MaybeUninit<PvclockScale>>,
) -> PvclockStatus {
    put(scale, || Ok(Scale::from_hertz(Hertz(hz))?.into()))
}

/// The frequency that a scale stands for, to the nearest hertz.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn pvclock_scale_to_hz(
    scale: PvclockScale,
    hz: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    put(hz, || {
        let hertz = Scale::from(scale).to_hertz();
        hertz.map(|hertz| hertz.0).ok_or(PvclockStatus::BadFrequency)
    })
}

/// Nanoseconds for a number of cycles of a counter with this scale, truncated.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn pvclock_scale_ns(
    scale: PvclockScale,
    cycles: u64,
    ns: Option<&mut MaybeUninit<u64>>,
) -> PvclockStatus {
    put(ns, || {
        let nanos = Scale::from(scale).nanos(cycles);
        nanos.map(|nanos| nanos.0).ok_or(PvclockStatus::Overflow)
    })
}
