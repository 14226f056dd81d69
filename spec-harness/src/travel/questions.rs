//! What is asked of time travel, and what was found for one workload.

use serde::Serialize;
use std::collections::BTreeMap;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// The first prompt of `bugnet debug`, with an index there.
    PromptWithIndex,
    /// The same without.
    Prompt,
    /// `seek` to a random position, the median.
    Seek,
    /// The slowest of them.
    SeekWorst,
    /// One instruction on from there.
    Step,
    /// And back.
    StepBack,
    /// One instruction back right after a seek, the slowest.
    StepBackAfterSeek,
    /// What wrote a byte last, before a random position, the median.
    LastWrite,
    /// The slowest of them.
    LastWriteWorst,
    /// Back to where a breakpoint was hit last, far away.
    BackToBreakpoint,
    /// What making the index adds to verification.
    IndexPass,
    /// Verifying all threads together, relative to each on its own.
    Merged,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Wall time.
    Seconds,
    /// What is added, as a part of what there is without.
    Added,
    /// A ratio.
    Times,
}

impl Question {
    /// All, in the order of the table.
    pub const ALL: [Self; 12] = [
        Self::PromptWithIndex,
        Self::Prompt,
        Self::Seek,
        Self::SeekWorst,
        Self::Step,
        Self::StepBack,
        Self::StepBackAfterSeek,
        Self::LastWrite,
        Self::LastWriteWorst,
        Self::BackToBreakpoint,
        Self::IndexPass,
        Self::Merged,
    ];

    /// Its name in the table.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::PromptWithIndex => "first prompt, index there",
            Self::Prompt => "first prompt, no index",
            Self::Seek => "seek anywhere, median",
            Self::SeekWorst => "seek anywhere, worst",
            Self::Step => "step after it, median",
            Self::StepBack => "reverse-step after that, median",
            Self::StepBackAfterSeek => "reverse-step right after a seek, worst",
            Self::LastWrite => "last write of a byte anywhere, median",
            Self::LastWriteWorst => "last write of a byte anywhere, worst",
            Self::BackToBreakpoint => "reverse-continue to a breakpoint far back",
            Self::IndexPass => "index pass, on top of replay, CPU",
            Self::Merged => "merged replay against replay, CPU",
        }
    }

    /// What is aimed at, and what it counts.
    #[must_use]
    pub fn goal(self) -> (f64, Unit) {
        match self {
            Self::PromptWithIndex | Self::SeekWorst | Self::LastWrite | Self::LastWriteWorst => (0.5, Unit::Seconds),
            Self::Prompt | Self::BackToBreakpoint => (1.0, Unit::Seconds),
            Self::Seek => (0.15, Unit::Seconds),
            Self::Step | Self::StepBack => (0.002, Unit::Seconds),
            Self::StepBackAfterSeek => (0.3, Unit::Seconds),
            Self::IndexPass => (0.3, Unit::Added),
            Self::Merged => (3.0, Unit::Times),
        }
    }
}

/// Measurements of one kind. The first that fails spoils them, as those that are left would say something else.
#[derive(Clone, Debug, Default)]
pub struct Series {
    samples: Vec<f64>,
    failed: Option<String>,
}

impl Series {
    /// Adds one; whether it was one.
    pub fn add(&mut self, result: anyhow::Result<f64>) -> bool {
        match result {
            Ok(sample) => self.samples.push(sample),
            Err(error) => {
                self.failed.get_or_insert_with(|| format!("{error:#}"));
                return false;
            }
        }
        true
    }

    fn figure(&self, of: impl Fn(&[f64]) -> Option<f64>) -> Result<f64, String> {
        match (&self.failed, of(&self.samples)) {
            (Some(why), _) => Err(why.clone()),
            (None, figure) => figure.ok_or_else(|| "nothing was measured".to_owned()),
        }
    }

    /// The median.
    ///
    /// # Errors
    /// Why there is none.
    pub fn median(&self) -> Result<f64, String> {
        self.figure(median)
    }

    /// The largest.
    ///
    /// # Errors
    /// Why there is none.
    pub fn worst(&self) -> Result<f64, String> {
        self.figure(|samples| samples.iter().copied().reduce(f64::max))
    }

    /// All that were measured.
    #[must_use]
    pub fn samples(&self) -> &[f64] {
        &self.samples
    }
}

/// The median of some numbers.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (below, above) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((below + above) / 2.0)
}

/// A column of the table: a workload.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Instructions of all threads.
    pub instructions: u64,
    /// Threads.
    pub threads: usize,
    /// Bytes of the log, without copies of ELF files.
    pub log: u64,
    /// Bytes of the index.
    pub index: u64,
    /// How far back the breakpoint was, in instructions.
    pub distance: u64,
    /// What was found, in seconds or as a ratio.
    pub figures: BTreeMap<Question, f64>,
    /// Why others were not found.
    pub missing: BTreeMap<Question, String>,
    /// How often the last write of a byte was an instruction, came from elsewhere, was found there, and was unknown.
    pub writes: BTreeMap<&'static str, usize>,
    /// All single measurements, in seconds.
    pub samples: BTreeMap<Question, Vec<f64>>,
    /// How many figures failed: of others there is none for this workload.
    pub failed: usize,
}

impl Column {
    /// Keeps a figure, or says on standard error why there is none.
    pub fn set(&mut self, question: Question, figure: Result<f64, String>) {
        match figure {
            Ok(figure) => {
                self.figures.insert(question, figure);
            }
            Err(why) => {
                self.failed += 1;
                self.omit(question, why);
            }
        }
    }

    /// Says on standard error why there is no such figure, which is all right.
    pub fn omit(&mut self, question: Question, why: String) {
        eprintln!("{}: {}: {why}", self.name, question.text());
        self.missing.insert(question, why);
    }

    /// Keeps the single measurements.
    pub fn keep(&mut self, question: Question, series: &Series) {
        self.samples.insert(question, series.samples().to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_worst() {
        let mut series = Series::default();
        assert!(series.median().is_err());
        assert!([3.0, 1.0, 2.0].into_iter().all(|sample| series.add(Ok(sample))));
        assert_eq!((series.median(), series.worst()), (Ok(2.0), Ok(3.0)));
        series.add(Ok(10.0));
        assert_eq!(series.median(), Ok(2.5));
        assert!(!series.add(Err(anyhow::anyhow!("elsewhere"))));
        assert_eq!(series.median(), Err("elsewhere".to_owned()));
    }

    #[test]
    fn a_figure_that_is_not_asked_for_is_no_failure() {
        let mut column = Column::default();
        column.omit(Question::Merged, "one thread".to_owned());
        assert_eq!(column.failed, 0);
        column.set(Question::Seek, Err("gdb ended".to_owned()));
        assert_eq!((column.failed, column.missing.len()), (1, 2));
    }
}
