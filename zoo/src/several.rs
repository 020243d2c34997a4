//! Several rows at a time: most of a machine's time is waiting.

use std::sync::Mutex;
use std::thread;

use crate::table::Row;
use crate::visit::Visit;

/// What becomes of each row, in the order in which they end.
pub(crate) fn each(
    rows: &[Row],
    at_once: usize,
    visit: impl Fn(&Row) -> Result<Visit, String> + Sync,
) -> Result<Vec<Visit>, String> {
    let waiting = Mutex::new(rows.iter());
    let visits = Mutex::new(Ok(Vec::new()));
    let next = || waiting.lock().ok()?.next();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(row) = next() {
                    let one = visit(row);
                    let Ok(mut all) = visits.lock() else { return };
                    match (one, all.as_mut()) {
                        (Ok(one), Ok(all)) => all.push(one),
                        (Err(why), _) => *all = Err(why),
                        (Ok(_), Err(_)) => {}
                    }
                }
            });
        }
    });
    visits.into_inner().map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::table::Table;
    use crate::visit::End;

    #[test]
    fn each_row_is_visited_once_and_an_error_is_told() {
        let rows = Table::read().unwrap().rows;
        let visit = |row: &Row| Visit {
            row: row.name.clone(),
            at: String::new(),
            commit: String::new(),
            kernel: String::new(),
            took_s: 0.0,
            end: End::Broken(String::new()),
        };
        let names = |mut all: Vec<Visit>| {
            all.sort_by(|one, other| one.row.cmp(&other.row));
            all.into_iter().map(|visit| visit.row).collect::<Vec<_>>()
        };
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all = each(&rows, 3, |row| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let visit = visit(row);
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(visit)
        });
        assert_eq!(names(all.unwrap()), names(rows.iter().map(visit).collect()));
        assert!(most.into_inner() <= 3);
        let refused = each(&rows, 2, |row| {
            if row.name == rows[5].name { Err("no space".to_owned()) } else { Ok(visit(row)) }
        });
        assert_eq!(refused.unwrap_err(), "no space");
    }
}
