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
    let next = || waiting.lock().ok()?.next();
    let none_left = || waiting.lock().map(|mut rows| rows.by_ref().for_each(drop));
    let lane = || {
        let mut visits = Vec::new();
        while let Some(row) = next() {
            // After an error only the rows that run already are waited for.
            visits.push(visit(row).inspect_err(|_| drop(none_left()))?);
        }
        Ok(visits)
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..at_once).map(|_| scope.spawn(lane)).collect();
        let ended = lanes.into_iter().map(|lane| lane.join().expect("a visit does not panic"));
        ended.collect::<Result<Vec<_>, String>>().map(|lanes| lanes.into_iter().flatten().collect())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::table::Table;
    use crate::visit::{End, Host};

    #[test]
    fn each_row_is_visited_once_and_an_error_is_told() {
        let rows = Table::read().unwrap().rows;
        let visit = |row: &Row| Visit {
            row: row.name.clone(),
            at: String::new(),
            commit: String::new(),
            host: Host::default(),
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
        let visited = AtomicUsize::new(0);
        let refused = each(&rows, 1, |row| {
            visited.fetch_add(1, Ordering::SeqCst);
            if row.name == rows[5].name { Err("no space".to_owned()) } else { Ok(visit(row)) }
        });
        assert_eq!((refused.unwrap_err().as_str(), visited.into_inner()), ("no space", 6));
    }
}
