//! What the page calls: for each piece of a log it writes the bytes where [`input`] says and
//! calls [`push`]; after [`finish`] it reads the reply where [`output`] does.
//!
//! Invariant of the unsafe code: no other crate of the module exports these names. They
//! take and give addresses, and follow none.
#![allow(unsafe_code)]

use std::cell::RefCell;

use facts::kernel::pasted::PastedLog;

use crate::verdict;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static LOG: RefCell<PastedLog> = RefCell::new(PastedLog::default());
}

/// The longest piece, bytes.
const LONGEST_PIECE: usize = 1 << 20;

/// Where a piece of `bytes` is to be written; null where it is too long.
// SAFETY: no other crate of this module exports the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn input(bytes: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        if bytes > LONGEST_PIECE {
            return std::ptr::null_mut();
        }
        buffer.resize(bytes, 0);
        buffer.as_mut_ptr()
    })
}

/// Reads the piece.
// SAFETY: no other crate of this module exports the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn push() {
    BUFFER.with_borrow_mut(|buffer| {
        LOG.with_borrow_mut(|log| log.push(buffer));
        buffer.clear();
    });
}

/// Judges the pieces since the last verdict; the length of the reply, bytes.
// SAFETY: no other crate of this module exports the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn finish() -> usize {
    let log = LOG.take().finish();
    BUFFER.with_borrow_mut(|buffer| {
        *buffer = verdict(log);
        buffer.len()
    })
}

/// Where the reply is, until the next piece.
// SAFETY: no other crate of this module exports the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn output() -> *const u8 {
    BUFFER.with_borrow(|buffer| buffer.as_ptr())
}
