//! The questions that are shipped: the files of `queries`, by name.

use crate::failure::Failure;

/// Name, SQL.
pub(crate) const SHIPPED: &[(&str, &str)] = &[
    ("changed-last-night", include_str!("../questions/changed-last-night.sql")),
    ("drift-by-clocksource", include_str!("../questions/drift-by-clocksource.sql")),
    ("margin-by-consumer", include_str!("../questions/margin-by-consumer.sql")),
    ("restores-by-platform", include_str!("../questions/restores-by-platform.sql")),
    ("worst-clocks", include_str!("../questions/worst-clocks.sql")),
];

/// A question of that name, or, with a blank in it, SQL.
pub(crate) fn sql(question: &str) -> Result<String, Failure> {
    if let Some((_, sql)) = SHIPPED.iter().find(|(name, _)| *name == question) {
        return Ok((*sql).to_owned());
    }
    if question.trim().contains(char::is_whitespace) {
        return Ok(question.to_owned());
    }
    let names: Vec<_> = SHIPPED.iter().map(|(name, _)| *name).collect();
    Err(Failure::new(
        format!("there is no question {question:?}"),
        format!(
            "{}; or SQL, such as \"select host, max(error_ns) from clocks group by host\"",
            names.join(", ")
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_of_the_folder_is_shipped() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/questions");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".sql").map(str::to_owned))
            .collect();
        names.sort();
        assert_eq!(names, SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
