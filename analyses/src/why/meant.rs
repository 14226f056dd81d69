//! What a change of an instruction means for the line of source text from which that comes.

use super::variants::Kind;
use iced_x86::{ConditionCode, Instruction, Mnemonic, OpKind};

/// A change of an instruction, as far as it takes to say what it means.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The instruction.
    pub was: Instruction,
    /// What takes its place; none where it is left out, or jumps whatever the condition.
    pub other: Option<Instruction>,
    /// Which kind of change it is.
    pub kind: Kind,
    /// At which execution alone, from 1.
    pub nth: Option<u64>,
}

/// How two values may lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

impl Relation {
    const ALL: [(Self, &'static str); 6] = [
        (Self::LessOrEqual, "<="),
        (Self::GreaterOrEqual, ">="),
        (Self::Equal, "=="),
        (Self::NotEqual, "!="),
        (Self::Less, "<"),
        (Self::Greater, ">"),
    ];

    fn of(condition: ConditionCode) -> Option<Self> {
        Some(match condition {
            ConditionCode::l | ConditionCode::b | ConditionCode::s => Self::Less,
            ConditionCode::le | ConditionCode::be => Self::LessOrEqual,
            ConditionCode::g | ConditionCode::a => Self::Greater,
            ConditionCode::ge | ConditionCode::ae | ConditionCode::ns => Self::GreaterOrEqual,
            ConditionCode::e => Self::Equal,
            ConditionCode::ne => Self::NotEqual,
            _ => return None,
        })
    }

    fn opposite(self) -> Self {
        match self {
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
        }
    }

    fn sign(self) -> &'static str {
        Self::ALL.iter().find(|(relation, _)| *relation == self).map_or("", |(_, sign)| sign)
    }
}

/// The one comparison that a line of source text has.
struct Comparison<'a> {
    left: &'a str,
    relation: Relation,
    right: &'a str,
}

impl Comparison<'_> {
    fn with(&self, relation: Relation) -> String {
        format!("`{} {} {}`", self.left, relation.sign(), self.right)
    }
}

/// The text with what stands in quotes and comments blanked out.
fn code_alone(text: &str) -> String {
    let (mut quote, mut escaped, mut is_comment) = (None, false, false);
    let mut all = String::new();
    for (at, c) in text.char_indices() {
        is_comment |= quote.is_none() && ["//", "/*"].iter().any(|begin| text[at..].starts_with(begin));
        let is_quoted = quote.is_some() || is_comment;
        match quote {
            Some(end) if c == end && !escaped => quote = None,
            None if !is_comment && c == '"' => quote = Some(c),
            // A lifetime has no second one.
            None if !is_comment && c == '\'' && text[at + 1..].chars().nth(1).is_some_and(|c| c == '\'') => {
                quote = Some(c)
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        // As long as the character, so that places stay the same.
        let blank = if is_quoted || quote.is_some() { "_".repeat(c.len_utf8()) } else { c.to_string() };
        all += &blank;
    }
    all
}

/// The comparison of a line, if it has one and no other.
fn comparison(text: &str) -> Option<Comparison<'_>> {
    let code = code_alone(text);
    let mut found = None;
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let other = ["<<=", ">>=", "<<", ">>", "->", "=>", "<=>"].iter().find(|other| rest.starts_with(**other));
        if let Some(other) = other {
            at += other.len();
        } else if let Some((relation, sign)) = Relation::ALL.iter().find(|(_, sign)| rest.starts_with(sign)) {
            if found.replace((at, *relation, sign.len())).is_some() {
                return None;
            }
            at += sign.len();
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    let (at, relation, len) = found?;
    let left = &text[begin(&code[..at])..at];
    let right = &text[at + len..at + len + end(&code[at + len..])];
    let (left, right) = (left.trim(), right.trim());
    let is_type = |text: &str| {
        text.is_empty()
            || text.contains(char::is_whitespace) && !text.contains(['+', '-', '*', '/', '(', '[', '&', '.'])
    };
    (!is_type(left) && !right.is_empty()).then_some(Comparison { left, relation, right })
}

const WORDS: [&str; 4] = ["return ", "while ", "if ", "case "];

/// Where the operand begins that the text ends with.
fn begin(code: &str) -> usize {
    let mut depth = 0;
    let mut start = 0;
    for (at, c) in code.char_indices().rev() {
        let is_end = match c {
            ')' | ']' => {
                depth += 1;
                false
            }
            '(' | '[' if depth > 0 => {
                depth -= 1;
                false
            }
            '(' | '[' | '{' | '}' | ';' | ',' | '?' | ':' | '=' | '!' => depth == 0,
            '&' | '|' => depth == 0 && at > 0 && code.as_bytes()[at - 1] == c as u8,
            _ => false,
        };
        if is_end {
            start = at + 1;
            break;
        }
    }
    let word = WORDS.iter().filter_map(|word| Some(code[start..].rfind(word)? + word.len())).max();
    start + word.unwrap_or(0)
}

/// Where the operand ends that the text begins with.
fn end(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' if depth > 0 => depth -= 1,
            ')' | ']' | '{' | '}' | ';' | ',' | '?' | ':' if depth == 0 => return at,
            '&' | '|' if depth == 0 && code[at + 1..].starts_with(c) => return at,
            _ => {}
        }
    }
    code.len()
}

impl Changed {
    /// What it means, to be read behind "with"; `text` is the line.
    pub fn words(&self, text: Option<&str>) -> String {
        let condition = self.was.condition_code();
        let decides = match &self.other {
            Some(other) => other.condition_code() != condition,
            None => self.was.is_jcc_short_or_near(),
        };
        match (&self.other, decides) {
            (_, true) => self.condition(condition, text.and_then(comparison).as_ref()),
            (Some(other), _) => self.instead(other, text),
            (None, _) => format!("its {} left out", self.does()),
        }
    }

    /// Of a condition. Compilers may turn it round, but leave the sides of a comparison where they are, unless what they compare is not what the text says:
    /// then, nothing is said of the text.
    fn condition(&self, condition: ConditionCode, text: Option<&Comparison<'_>>) -> String {
        let was = Relation::of(condition);
        let text = text.filter(|text| was.is_some_and(|was| was == text.relation || was == text.relation.opposite()));
        let is_opposite = text.is_some_and(|text| was != Some(text.relation));
        let named = |relation: Option<Relation>| text.zip(relation).map(|(text, relation)| text.with(relation));
        let name = named(text.map(|text| text.relation));
        let always = |jumps: bool| match &name {
            Some(name) => format!("{name} always {}", jumps != is_opposite),
            None => format!("the condition such that it {} jumps", if jumps { "always" } else { "never" }),
        };
        let name = || name.clone().unwrap_or_else(|| "the condition".to_owned());
        match (self.kind, &self.other) {
            (Kind::Always, _) => always(true),
            (Kind::Out, _) => always(false),
            (Kind::Once, _) => {
                let nth = self.nth.map_or_else(String::new, |nth| format!(" at execution {nth} of it"));
                format!("{} decided the other way{nth}", name())
            }
            (Kind::Turned, _) | (_, None) => format!("{} turned into its opposite", name()),
            (_, Some(other)) => {
                let other = Relation::of(other.condition_code());
                if was == other {
                    return format!("the numbers of {} compared as ones {}", name(), sign(condition));
                }
                let means = other.map(|other| if is_opposite { other.opposite() } else { other });
                match (named(means), text) {
                    (Some(means), Some(text)) => format!("{means} instead of {}", text.with(text.relation)),
                    _ => match (was, other) {
                        (Some(Relation::Equal | Relation::NotEqual), _) => {
                            "a comparison of order instead of equality".into()
                        }
                        _ => "equal values counted the other way in the comparison".into(),
                    },
                }
            }
        }
    }

    /// What the instruction does.
    fn does(&self) -> &'static str {
        match self.was.mnemonic() {
            Mnemonic::Call => "call",
            _ if self.was.op_count() > 0 && self.was.op0_kind() == OpKind::Memory && operator(&self.was).is_none() => {
                "store"
            }
            Mnemonic::Cdq | Mnemonic::Cqo | Mnemonic::Cdqe | Mnemonic::Cwde => "widening",
            _ => operator(&self.was).map_or("operation", |(_, name)| name),
        }
    }

    /// Another instruction.
    fn instead(&self, other: &Instruction, text: Option<&str>) -> String {
        let was = &self.was;
        if was.mnemonic() != other.mnemonic() {
            return match (operator(was), operator(other)) {
                (Some((one, _)), Some((another, _))) => format!("{another} instead of {one}"),
                // To memory.
                (None, Some((another, _))) => format!("{another} to what is there instead of the assignment"),
                _ => "another operation".to_owned(),
            };
        }
        let immediate = |one: &Instruction| {
            let last = one.op_count().checked_sub(1)?;
            let is_one = !matches!(one.op_kind(last), OpKind::Register | OpKind::Memory);
            is_one.then(|| one.immediate(last).cast_signed())
        };
        if let (Some(one), Some(another)) = (immediate(was), immediate(other))
            && one != another
        {
            let is_there = text.is_some_and(|text| {
                let code = code_alone(text);
                let mut words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                words.any(|word| word == one.to_string())
            });
            return match another.wrapping_sub(one) {
                _ if is_there => format!("`{another}` instead of `{one}`"),
                more @ 0.. => format!("a constant greater by {more}"),
                less => format!("a constant smaller by {}", less.unsigned_abs()),
            };
        }
        let moved = other.memory_displacement64().wrapping_sub(was.memory_displacement64()).cast_signed();
        match (moved, was.mnemonic()) {
            (0, _) => "its operands the other way round".to_owned(),
            (1.., Mnemonic::Lea) => format!("a sum or an address greater by {moved}"),
            (_, Mnemonic::Lea) => format!("a sum or an address smaller by {}", moved.unsigned_abs()),
            (1.., _) => format!("the variable, field or element that lies {moved} bytes behind it"),
            _ => format!("the variable, field or element that lies {} bytes before it", moved.unsigned_abs()),
        }
    }
}

fn sign(condition: ConditionCode) -> &'static str {
    match condition {
        ConditionCode::l | ConditionCode::le | ConditionCode::g | ConditionCode::ge => "without a sign",
        _ => "with a sign",
    }
}

/// What an instruction computes: as a sign of source text, and in a word.
fn operator(instruction: &Instruction) -> Option<(&'static str, &'static str)> {
    use Mnemonic as M;
    Some(match instruction.mnemonic() {
        M::Add | M::Addss | M::Addsd | M::Addps | M::Addpd => ("`+`", "addition"),
        M::Sub | M::Subss | M::Subsd | M::Subps | M::Subpd => ("`-`", "subtraction"),
        M::Mul | M::Imul | M::Mulss | M::Mulsd | M::Mulps | M::Mulpd => ("`*`", "multiplication"),
        M::Divss | M::Divsd | M::Divps | M::Divpd => ("`/`", "division"),
        M::Div => ("a division of numbers without a sign", "division"),
        M::Idiv => ("a division of numbers with a sign", "division"),
        M::And => ("`&`", "`&`"),
        M::Or => ("`|`", "`|`"),
        M::Xor => ("`^`", "`^`"),
        M::Inc => ("`++`", "increment"),
        M::Dec => ("`--`", "decrement"),
        M::Shl | M::Sal => ("`<<`", "shift"),
        M::Shr => ("`>>` of a number without a sign", "shift"),
        M::Sar => ("`>>` of a number with a sign", "shift"),
        M::Movzx => ("a number without a sign", "widening"),
        M::Movsx | M::Movsxd => ("a number with a sign", "widening"),
        M::Minss | M::Minsd | M::Minps | M::Minpd => ("the smaller one", "minimum"),
        M::Maxss | M::Maxsd | M::Maxps | M::Maxpd => ("the greater one", "maximum"),
        M::Cvttss2si | M::Cvttsd2si => ("cutting off", "cutting off"),
        M::Cvtss2si | M::Cvtsd2si => ("rounding", "rounding"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::variants::variants;

    /// What all changes of an instruction mean for a line.
    fn words(bytes: &[u8], text: &str) -> Vec<String> {
        variants(bytes, 0x1000).into_iter().map(|one| one.changed.words(Some(text))).collect()
    }

    fn has(bytes: &[u8], text: &str, wanted: &[&str]) {
        let all = words(bytes, text);
        for one in wanted {
            assert!(all.iter().any(|text| text == one), "{one:?} is not in {all:#?}");
        }
    }

    #[test]
    fn comparisons() {
        // jle, as the condition is, and jg, as it is turned round.
        for jump in [0x7e, 0x7f] {
            let text = "for (int i = 0; i <= n; i++) // < \"";
            let always = ["`i <= n` always true", "`i <= n` always false"];
            has(&[jump, 0x10], text, &["`i < n` instead of `i <= n`", always[0], always[1]]);
            has(&[jump, 0x10], text, &["the numbers of `i <= n` compared as ones without a sign"]);
            has(&[jump, 0x10], text, &["`i <= n` turned into its opposite"]);
        }
        has(
            &[0x7e, 0x10],
            "while (list->len(a, b) <= n[2] && *p)",
            &["`list->len(a, b) < n[2]` instead of `list->len(a, b) <= n[2]`"],
        );
        has(&[0x74, 0x10], "    return a[i] != '<';", &["`a[i] > '<'` instead of `a[i] != '<'`"]);
        // It may be another comparison than that of the text, or there are several.
        for text in ["if (i < 10)", "if (a <= b && c <= d)", "x = y;", "std::vector<int> v"] {
            has(&[0x7e, 0x10], text, &["equal values counted the other way in the comparison"]);
        }
    }

    #[test]
    fn other_operators() {
        has(&[0x01, 0xd8], "x = a + b;", &["`-` instead of `+`", "its addition left out"]);
        has(&[0x83, 0xe0, 0x07], "x &= 7;", &["`8` instead of `7`", "`|` instead of `&`"]);
        has(&[0x83, 0xe0, 0x07], "x &= MASK;", &["a constant greater by 1", "a constant smaller by 1"]);
        has(&[0x39, 0xd8], "if (a < b)", &["its operands the other way round"]);
        has(&[0x8b, 0x45, 0xf8], "x = a;", &["the variable, field or element that lies 4 bytes behind it"]);
        has(&[0x88, 0x10], "*p = x;", &["`|` to what is there instead of the assignment", "its store left out"]);
        has(&[0xe8, 0, 0, 0, 0], "f();", &["its call left out"]);
    }
}
