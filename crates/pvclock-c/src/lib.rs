//! pvclock-c
