//! The client's options, as `bugnet record` passes them.

use std::path::PathBuf;
use std::sync::OnceLock;

/// What the program may see of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuLevel {
    /// SSE4.2 and what is below it.
    V2,
    /// AVX2, BMI2, FMA and what is below them. The default.
    V3,
    /// Everything that can be recorded exactly: no AVX-512, AMX, transactional memory.
    Host,
}

/// When the memory of a process is kept as it is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Never.
    None,
    /// When a signal kills it.
    Crashes,
    /// Whenever it ends.
    All,
}

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recording's folder; it exists.
    pub log: PathBuf,
    /// Instructions of a checkpoint interval.
    pub interval: u64,
    /// How many intervals of each thread stay on disk; 0 for all.
    pub keep: u64,
    /// A `CHECK` at least every so many instructions; 0 for none.
    pub check_every: u64,
    /// What CPUID shows.
    pub cpu: CpuLevel,
    /// When memory is kept.
    pub snapshot: Ends,
    /// Most bytes of it that are kept, beside zeros.
    pub snapshot_limit: u64,
    /// Whether children are recorded, and programs that take the place of this one.
    pub follow: bool,
    /// The limit of the stack in bytes that the program is to have, if that is not the limit at the start.
    pub stack_limit: Option<u64>,
    /// The seed of chaos; none where threads run undisturbed.
    pub chaos: Option<u64>,
    /// The light log that is expanded; none where a program is recorded.
    pub expand: Option<PathBuf>,
}

static OPTIONS: OnceLock<Options> = OnceLock::new();

/// Those of the process, and of all that it forks.
pub fn get() -> &'static Options {
    OPTIONS.get().unwrap_or_else(|| crate::base::failure::fail("the logger was not started"))
}

/// The process begins with these.
pub fn set(options: Options) {
    let _ = OPTIONS.set(options);
}

/// Undoes the percent-encoding of a path that has to pass through DynamoRIO's option parser.
fn decode_path(text: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let hex = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
        } else {
            out.push(b);
        }
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(out)))
}

impl Options {
    /// Parses `-name value` pairs.
    ///
    /// # Errors
    /// A sentence that says which option is wrong.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            log: PathBuf::new(),
            interval: 100_000_000,
            keep: 0,
            check_every: 0,
            cpu: CpuLevel::V3,
            snapshot: Ends::None,
            snapshot_limit: 0,
            follow: true,
            stack_limit: None,
            chaos: None,
            expand: None,
        };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("logger option {name} lacks its value"))?;
            let wrong = || format!("logger option {name} has a wrong value: {value}");
            let number = || value.parse::<u64>().map_err(|_| wrong());
            match name.as_str() {
                "-log" => options.log = decode_path(value).ok_or_else(wrong)?,
                "-interval" => options.interval = number()?.max(1),
                "-keep" => options.keep = number()?,
                "-check-every" => options.check_every = number()?,
                "-snapshot-limit" => options.snapshot_limit = number()?,
                "-snapshot" => {
                    options.snapshot = match value.as_str() {
                        "none" => Ends::None,
                        "crashes" => Ends::Crashes,
                        "all" => Ends::All,
                        _ => return Err(wrong()),
                    }
                }
                "-follow" => options.follow = number()? != 0,
                "-stack-limit" => options.stack_limit = Some(number()?),
                "-expand" => options.expand = Some(decode_path(value).ok_or_else(wrong)?),
                "-chaos" => options.chaos = Some(number()?),
                "-cpu" => {
                    options.cpu = match value.as_str() {
                        "x86-64-v2" => CpuLevel::V2,
                        "x86-64-v3" => CpuLevel::V3,
                        "x86-64-v4" | "host" => CpuLevel::Host,
                        _ => return Err(wrong()),
                    }
                }
                _ => return Err(format!("unknown logger option {name}")),
            }
        }
        if options.log.as_os_str().is_empty() {
            return Err("logger option -log is missing".into());
        }
        Ok(options)
    }
}
