//! pvclock
