//! The two arms side by side. Nothing is subtracted from one arm only.

use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::Output;
use crate::arm::{Member, Outcome};

/// The numbers of one arm, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    arm: &'static str,
    /// Summed over the consumers: from the node taken to the result in hand. The paper's
    /// definition; start-up and imports are part of it.
    idle: f64,
    /// Of it: from the node taken to the interpreter running.
    start_up: f64,
    /// Of it: imports.
    imports: f64,
    /// Of it: all imported, and no result yet.
    waiting: f64,
    /// From the Job's creation to the producer's last line.
    time_to_result: f64,
}

/// One number of an arm.
type Part = fn(&Figures) -> f64;

impl Figures {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let consumers = || outcome.members.iter().filter(|m| m.times.role == "consumer");
        let sum = |part: fn(&Member) -> f64| consumers().map(part).sum();
        let done = outcome.members.iter().map(|m| m.times.done).fold(f64::MIN, f64::max);
        Self {
            arm: outcome.gating.name(),
            idle: sum(|m| m.times.result - m.placed),
            start_up: sum(|m| m.times.born - m.placed),
            imports: sum(|m| m.times.imported - m.times.born),
            waiting: sum(|m| m.times.result - m.times.imported),
            time_to_result: done - outcome.created,
        }
    }
}

#[expect(clippy::print_stdout, reason = "the comparison is the data of this program")]
pub(crate) fn print(outcomes: &[Outcome], output: Output) -> Result<()> {
    let figures: Vec<_> = outcomes.iter().map(Figures::of).collect();
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&figures)?),
        Output::Table => println!("{}", table(&figures)),
    }
    Ok(())
}

fn table(figures: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let head = figures.iter().map(|f| f.arm.to_owned());
    table.set_header(std::iter::once("seconds".to_owned()).chain(head));
    let rows: [(&str, Part); 5] = [
        ("idle time of 7 consumers, summed", |f| f.idle),
        ("  of it start-up of containers", |f| f.start_up),
        ("  of it imports", |f| f.imports),
        ("  of it waiting for the result", |f| f.waiting),
        ("time to result", |f| f.time_to_result),
    ];
    for (name, value) in rows {
        let cells = figures.iter().map(|f| format!("{:.1}", value(f)));
        table.add_row(std::iter::once(name.to_owned()).chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{Gating, Times};

    fn mk_member(role: &str, placed: f64, born: f64, imported: f64, result: f64) -> Member {
        let times = Times { role: role.into(), born, imported, result, done: result + 1.0 };
        Member { placed, times }
    }

    #[test]
    fn the_parts_of_the_idle_time_add_up_and_the_producer_is_left_out() {
        let outcome = Outcome {
            gating: Gating::Gated,
            created: 100.0,
            answer: String::new(),
            members: vec![
                mk_member("producer", 100.0, 101.0, 102.0, 150.0),
                mk_member("consumer", 140.0, 141.5, 143.0, 150.0),
                mk_member("consumer", 140.0, 141.0, 144.0, 151.0),
            ],
        };
        let figures = Figures::of(&outcome);
        assert!((figures.idle - 21.0).abs() < 1e-9, "{figures:?}");
        let parts = figures.start_up + figures.imports + figures.waiting;
        assert!((parts - figures.idle).abs() < 1e-9, "{figures:?}");
        assert!((figures.time_to_result - 52.0).abs() < 1e-9, "{figures:?}");
    }
}
