//! Reading what runs left, and no more.

use super::*;

/// Whether a Parquet file of that name still has its partial lines: of a run
/// that was cut short, or that is running.
pub fn is_unfinished(path: &Path) -> bool {
    Kind::for_path(path).is_ok_and(|kind| kind == Kind::Parquet) && partial(path).exists()
}

/// Gives what runs left of `path` to `take`, and changes nothing: the file need
/// not be writable, and another run may be writing it.
///
/// # Errors
/// It cannot be read, is no file of comparisons, or `take` rejects one.
pub fn read(path: &Path, take: impl FnMut(&Record) -> Result<(), String>) -> Result<Joined, Error> {
    let kind = Kind::for_path(path).ok();
    let path = if is_unfinished(path) { partial(path) } else { path.to_owned() };
    let file = File::open(&path).map_err(reading(&path))?;
    let mut taken = RecordTaker { take, count: 0, refused: None };
    let (mut cut_bytes, mut bad) = (0, BadLines::default());
    if Kind::for_path(&path).is_ok_and(|kind| kind == Kind::Parquet) {
        parquet::read(file, |record| taken.take(&record)).map_err(damaged(&path))?;
        taken.check(&path)?;
    } else {
        let whole = taken.read_lines(&file, &path, kind)?;
        (cut_bytes, bad) = (whole.cut_bytes, whole.bad);
    }
    Ok(Joined { path, cut_bytes, bad })
}
