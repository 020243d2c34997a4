/// A leap second, at the end of a UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeapSecond {
    /// 23:59:60 (STA_INS).
    Inserted,
    /// No 23:59:59 (STA_DEL).
    Deleted,
}
