//! What the page calls: it writes a request where [`input`] says, and after [`call`]
//! reads the reply where [`output`] does.
//!
//! Invariant of the unsafe code: no other crate of the module exports these names. They
//! take and give addresses, and follow none.
#![allow(unsafe_code)]

use std::cell::RefCell;

use crate::PageSession;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static SESSION: RefCell<PageSession> = RefCell::new(PageSession::default());
}

/// Where a request of so many bytes is to be written.
// SAFETY: no other crate of this module exports the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn input(bytes: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(bytes, 0);
        buffer.as_mut_ptr()
    })
}

/// Answers the request; how many bytes the reply has.
// SAFETY: no other crate of this module exports the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn call() -> usize {
    BUFFER.with_borrow_mut(|buffer| {
        *buffer = SESSION.with_borrow_mut(|session| session.answer(buffer));
        buffer.len()
    })
}

/// Where the reply is, until the next request.
// SAFETY: no other crate of this module exports the name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn output() -> *const u8 {
    BUFFER.with_borrow(|buffer| buffer.as_ptr())
}
