//! Writing rows: JSON lines for programs, a table for people.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use crate::row::Row;

/// Why rows cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the results to {}: is the folder there and is there room?", path.display())]
pub struct Unwritable {
    path: PathBuf,
    source: io::Error,
}

/// A file with one JSON line a row. Each line is there as soon as its row is known, so that a
/// later failure loses none.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    /// Begins the file; what an earlier run wrote is gone.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn begin(path: &Path) -> Result<Self, Unwritable> {
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let file = made.and_then(|()| File::create(path));
        let path = path.to_owned();
        match file {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(Unwritable { path, source }),
        }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, row: &Row) -> Result<(), Unwritable> {
        line(&mut self.file, row).map_err(|source| Unwritable { path: self.path.clone(), source })
    }
}

/// Writes a row as one line of JSON.
///
/// # Errors
/// If the target takes it not.
pub fn line(to: &mut impl Write, row: &Row) -> io::Result<()> {
    let mut text = serde_json::to_vec(row)?;
    text.push(b'\n');
    to.write_all(&text)
}

/// The rows as a table. `plain` leaves colours out; where the output is no terminal they are left
/// out anyway.
#[must_use]
pub fn table(rows: &[Row], plain: bool) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    if plain {
        table.force_no_tty();
    }
    table.set_header(["what", "value", "floor", "unit", "ratio", "goal", "holds", "quoted"]);
    for row in rows {
        let number = |n: f64| Cell::new(digits(n)).set_alignment(CellAlignment::Right);
        let (word, color) = if row.holds { ("yes", Color::Green) } else { ("no", Color::Red) };
        table.add_row([
            Cell::new(&row.name),
            number(row.value),
            number(row.floor),
            Cell::new(row.unit),
            number(row.ratio),
            Cell::new(row.goal),
            Cell::new(word).fg(color),
            Cell::new(format!("median of {} rounds", row.rounds)),
        ]);
    }
    table
}

/// As many digits as say something.
fn digits(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::row::{Goal, Rounds};

    fn mk_row(name: &str, value: f64) -> Row {
        let rounds = Rounds { values: vec![value], floors: vec![10.0] };
        Row::of(name, "ms", &rounds, Goal::RatioAtMost(1.3)).unwrap()
    }

    #[test]
    fn a_run_writes_one_json_line_a_row_and_drops_the_run_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target/bench.jsonl");
        for (name, value) in [("old", 1.0), ("new", 15.0)] {
            let mut lines = Lines::begin(&path).unwrap();
            lines.add(&mk_row(name, value)).unwrap();
            lines.add(&mk_row("second", 12.0)).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let rows: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(
            rows[0],
            json!({"name": "new", "value": 15.0, "unit": "ms", "floor": 10.0, "ratio": 1.5,
                   "goal": "ratio <= 1.3", "holds": false, "rounds": 1})
        );
        assert_eq!((rows.len(), &rows[1]["holds"]), (2, &json!(true)));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Lines::begin(&file.join("bench.jsonl")).unwrap_err();
        assert!(error.to_string().contains("bench.jsonl"), "{error}");
    }

    #[test]
    fn the_table_says_what_is_a_median_of_how_many_and_has_no_colours_where_unwanted() {
        let text =
            table(&[mk_row("release_7", 12.345), mk_row("release_99", 1234.5)], true).to_string();
        for part in ["release_7", "12.3", "1.23", "ratio <= 1.3", "yes", "no", "median of 1 rounds"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
