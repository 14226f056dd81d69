//! What a chapter holds that can be tried: sessions, links, headings.

use anyhow::{Context, Result, bail};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::fs;
use std::path::Path;

/// A command, what is typed into it, and what it prints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Command {
    pub(crate) shell: String,
    /// Lines for gdb.
    pub(crate) input: Vec<String>,
    /// Lines that it prints, some of them.
    pub(crate) prints: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Chapter {
    /// The commands of all its sessions.
    pub(crate) sessions: Vec<Command>,
    pub(crate) links: Vec<String>,
    /// The names by which its headings can be linked to.
    pub(crate) headings: Vec<String>,
}

impl Chapter {
    /// # Errors
    /// The file cannot be read, or it has a session that begins with no command.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut chapter = Self::default();
        let mut heading = None;
        let mut session = None;
        for event in Parser::new(&text) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    chapter.links.push(dest_url.into_string())
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    chapter.headings.extend(heading.take().map(|title: String| anchor(&title)))
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if &*language == "console" => {
                    session = Some(String::new())
                }
                Event::End(TagEnd::CodeBlock) => {
                    let commands = session.take().map_or(Ok(Vec::new()), |session: String| commands(&session));
                    chapter.sessions.extend(commands.with_context(|| format!("in {}", path.display()))?);
                }
                Event::Text(text) | Event::Code(text) => {
                    for inside in [&mut heading, &mut session].into_iter().flatten() {
                        inside.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        Ok(chapter)
    }
}

/// The name that mdBook, and GitHub, give a heading.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The commands of a session.
fn commands(session: &str) -> Result<Vec<Command>> {
    let mut commands: Vec<Command> = Vec::new();
    let mut continued = false;
    for line in session.lines() {
        if let Some(shell) = line.strip_prefix("$ ") {
            commands.push(Command { shell: shell.to_owned(), ..Command::default() });
            continued = shell.ends_with('\\');
            continue;
        }
        let Some(command) = commands.last_mut() else {
            bail!("a session has to begin with a command, not with {line:?}")
        };
        if continued {
            command.shell = format!("{}\n{line}", command.shell);
            continued = line.ends_with('\\');
        } else if let Some(input) = line.strip_prefix("(gdb)") {
            command.input.push(input.trim().to_owned());
        } else if !line.trim().is_empty() && line.trim() != "..." {
            command.prints.push(line.to_owned());
        }
    }
    Ok(commands)
}
