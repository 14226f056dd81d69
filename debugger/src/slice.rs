//! `monitor slice`: what has made a value what it is, seen from where gdb is.

use crate::debuggee::Debuggee;
use bugnet_analyses::slice::{Detail, Options, Question, Shown, ask, report, slice};
use bugnet_replay::ReplayError;
use bugnet_replay::cursor::Seek;

/// Lines that are shown.
const LINES: usize = 30;

/// What somebody wants to know: `[--full] [EXPR|$REG|ADDR[:N]]`.
pub(crate) struct Wanted {
    /// With addresses and decisions.
    is_full: bool,
    /// About what; none for what matters there.
    question: Option<Question>,
}

impl Wanted {
    /// A register's name begins with `$`, as in gdb: without it, it is a variable's.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (is_full, subject) = match text.strip_prefix("--full") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => (true, rest.trim()),
            _ => (false, text),
        };
        let question = match subject {
            "" => None,
            register if register.starts_with('$') => Some(Question::Register(register.parse()?)),
            memory => Some(Question::Memory(memory.parse()?)),
        };
        Ok(Self { is_full, question })
    }
}

impl Debuggee<'_> {
    /// Slices for what the thread in focus has here. The cursor is elsewhere then.
    pub(crate) fn slice(&mut self, wanted: &Wanted) -> Result<String, ReplayError> {
        let is_over = self.cursor.time() == self.cursor.end() && self.cursor.death()?.is_some();
        let otherwise = if is_over { Question::Failure } else { Question::Operands };
        let question = wanted.question.as_ref().unwrap_or(&otherwise);
        let focus = self.threads()?.first().map(|thread| thread.place);
        if let Some(place) = focus.filter(|place| place.tid != self.cursor.place().tid) {
            self.cursor.seek(Seek::Place(place))?;
        }
        let asked = ask((self.tools, self.log), &mut self.cursor, &mut self.symbols, question)?;
        let options =
            Options { addresses: wanted.is_full, control: wanted.is_full, tables: true, keep: 0, ..Options::default() };
        // It replays in processes of its own: where that fails, all is well here.
        let found = slice(self.tools, self.log, self.pid(), &asked.criterion, &options)
            .map_err(|error| ReplayError::OutOfRange(error.to_string()))?;
        let detail = Detail { is_full: wanted.is_full, is_forward: false, values: LINES, folds: true };
        let report = report(self.log, &mut self.cursor, &mut self.symbols, &asked, &found, detail)?;
        Ok(Shown { report: &report, lines: LINES, instructions: false }.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects() {
        let parsed = |text| Wanted::parse(text).map(|wanted| (wanted.is_full, wanted.question));
        assert_eq!(parsed(""), Ok((false, None)));
        assert_eq!(parsed("--full"), Ok((true, None)));
        assert!(matches!(parsed("$eax"), Ok((false, Some(Question::Register(_))))));
        assert!(matches!(parsed("--full  eax"), Ok((true, Some(Question::Memory(_))))));
        assert!(matches!(parsed("0x1234:4"), Ok((false, Some(Question::Memory(_))))));
        assert!(parsed("$nothing").is_err());
    }
}
