//! The commands, one file each.

mod gather;
mod html;
pub(crate) mod map;
pub(crate) mod pair;
mod text;
