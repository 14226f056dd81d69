//! Slices are exact: they are what a slicer by brute force finds, and what is not in a full one can be left out without changing the value.

use anyhow::{Context, Result, ensure};
use bugnet_analyses::slice::{Criterion, Options, Slice, forward, slice};
use bugnet_events::atoms::Atoms;
use bugnet_format::record::Record;
use bugnet_replay::cursor::{Cursor, Place, Seek};
use bugnet_replay::log::{IntervalId, Log, ThreadId};
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, install, printed, run};
use bugnet_tests::sample::one_of;
use bugnet_tests::slices::random::{Program, SLOTS, program};
use bugnet_tests::slices::reference::{Execution, Kind};
use bugnet_tests::small::build_named;
use libtest_mimic::{Failed, Trial};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::process::{Command, Output};

/// Random programs of a run.
const PROGRAMS: u64 = 60;
/// Those of a long one.
const MANY: u64 = 600;

const KINDS: [Kind; 3] = [
    Kind { addresses: false, control: false },
    Kind { addresses: true, control: false },
    Kind { addresses: true, control: true },
];

struct Opened {
    log: Log,
    tools: Tools,
    thread: ThreadId,
}

impl Opened {
    fn new(path: &Path) -> Result<Self> {
        let (log, tools) = (Log::open(path)?, Tools::locate_for(&binary()?, None)?);
        let threads: Vec<ThreadId> = log.threads().collect();
        ensure!(threads.len() == 1, "{} threads", threads.len());
        Ok(Self { log, tools, thread: threads[0] })
    }

    fn slice(&self, criterion: &Criterion, kind: Kind) -> Result<Slice> {
        let Kind { addresses, control } = kind;
        let options =
            Options { addresses, control, tables: false, keep: usize::MAX, touched: true, ..Options::default() };
        Ok(slice(&self.tools, &self.log, self.thread.pid, criterion, &options)?)
    }
}

/// What both slicers find must be the same.
fn compare(opened: &Opened, execution: &Execution, criterion: &Criterion, kind: Kind) -> Result<BTreeSet<usize>> {
    let expected = execution.slice(criterion.atoms, &criterion.memory, kind)?;
    let found = opened.slice(criterion, kind)?;
    let places: BTreeSet<Place> = found.graph.instances.iter().map(|instance| instance.place).collect();
    ensure!(places.len() == found.graph.instances.len(), "an instruction is in the slice twice");
    ensure!(found.graph.count == places.len() as u64, "{} were counted, {} are there", found.graph.count, places.len());
    let all: BTreeSet<Place> = expected.iter().map(|number| execution.executed[*number].place).collect();
    let touched = expected.iter().flat_map(|number| &execution.executed[*number].touched);
    let bytes: HashSet<u64> = touched.flat_map(|(addr, len)| *addr..addr + len).collect();
    let counted = found.touched.context("nothing was counted")?;
    ensure!(counted.slice == bytes.len() as u64, "{counted:?}, not {} bytes", bytes.len());
    ensure!(counted.walked >= counted.slice, "{counted:?}");
    let text = |place: Option<&Place>| {
        let at = place.and_then(|place| execution.executed.iter().find(|executed| executed.place == *place));
        at.map(|executed| {
            format!("{}, {:#x} {:?}", executed.place, executed.instruction.ip(), executed.instruction.code())
        })
    };
    let (lacks, has) = (all.difference(&places).last(), places.difference(&all).last());
    ensure!(
        lacks.is_none() && has.is_none(),
        "{kind:?} from {}, {} {:x?}: {} are in it, not {}; it lacks {:?}, has {:?}",
        criterion.place,
        criterion.atoms,
        criterion.memory,
        places.len(),
        all.len(),
        text(lacks),
        text(has)
    );
    Ok(expected)
}

/// What both find that a value influences must be the same.
fn influence(opened: &Opened, criterion: &Criterion) -> Result<usize> {
    let Opened { log, tools, thread } = opened;
    let values = (criterion.atoms, &*criterion.memory);
    let expected = Execution::influence(tools, log, *thread, criterion.place, values)?;
    let options = Options { keep: usize::MAX, ..Options::default() };
    let found = forward(tools, log, thread.pid, criterion, &options)?;
    let found: BTreeSet<Place> = found.graph.instances.iter().map(|instance| instance.place).collect();
    let (lacks, has) = (expected.difference(&found).next(), found.difference(&expected).next());
    ensure!(
        lacks.is_none() && has.is_none(),
        "forward from {}, {} {:x?}: it lacks {lacks:?}, has {has:?}",
        criterion.place,
        criterion.atoms,
        criterion.memory
    );
    Ok(found.len())
}

/// Something that one might ask about at a random moment of a program of one thread, several times.
fn real(name: &str, has_no_signals: bool, job: impl Fn(&Workshop) -> Result<Job>) -> Result<()> {
    let workshop = Workshop::new(&format!("slicing-{name}"))?;
    let path = workshop.path.join("log");
    let recorded = run(&mut job(&workshop)?.recorded(&path, &["--interval", "60k"])?)?;
    ensure!(path.exists(), "{}", printed(&recorded));
    let opened = Opened::new(&path)?;
    let mut cursor = Cursor::open(&opened.tools, &opened.log, opened.thread.pid)?;
    let mut random = fastrand::Rng::with_seed(3);
    let (mut sliced, mut influenced, end) = (0, 0, cursor.end().min(400_000));
    for number in 0..8 {
        let time = if number == 0 { end } else { random.u64(end / 4..end) };
        cursor.seek(Seek::Time(time))?;
        let (place, stack) = (cursor.place(), cursor.regs().gpr[4]);
        let execution = Execution::of(&opened.tools, &opened.log, opened.thread, Some(place))?;
        let atoms: Atoms = (0..2).map(|_| Atoms::numbered(random.usize(0..17 * 8 + 64))).collect();
        let memory = if random.bool() { vec![(stack + 8 * random.u64(0..8), 8)] } else { Vec::new() };
        let criterion = Criterion { place, atoms: atoms - Atoms::RSP, memory, call: None, here: None };
        if number % 4 == 1 && has_no_signals {
            // Few bytes may be of no use to anybody; all of the first general registers are.
            let many: Atoms = (0..4 * 8).map(Atoms::numbered).collect();
            let criterion = Criterion { atoms: (criterion.atoms | many) - Atoms::RSP, ..criterion.clone() };
            influenced += influence(&opened, &criterion)?;
        }
        for kind in &KINDS[..2] {
            sliced += compare(&opened, &execution, &criterion, *kind)?.len();
        }
    }
    ensure!(
        sliced > 500 && (influenced > 0 || !has_no_signals),
        "only {sliced} and {influenced} instructions in all slices"
    );
    workshop.done()
}

/// Where a program's labels are.
fn labels(file: &object::File<'_>) -> HashMap<String, u64> {
    file.symbols().filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address()))).collect()
}

/// For each executed instruction, the last of those that decide on it, in its function, or the call of it.
fn find_parents(execution: &mut Execution, program: &Program, numbers: &HashMap<u64, usize>) -> Result<()> {
    // For each function, the call, and where each of its instructions was executed last.
    let mut frames: Vec<(Option<usize>, HashMap<usize, usize>)> = vec![(None, HashMap::new())];
    for at in 0..execution.executed.len() {
        let instruction = execution.executed[at].instruction;
        let number = *numbers.get(&instruction.ip()).context("an instruction of no label")?;
        let (call, last) = frames.last_mut().context("a return too many")?;
        let deciding = program.deciding[number].iter().filter_map(|deciding| last.get(deciding).copied()).max();
        execution.executed[at].parent = deciding.or(*call);
        last.insert(number, at);
        match instruction.flow_control() {
            iced_x86::FlowControl::Call if instruction.is_call_near() => frames.push((Some(at), HashMap::new())),
            iced_x86::FlowControl::Return => drop(frames.pop()),
            _ => {}
        }
    }
    Ok(())
}

/// Runs the program without the instruction at an address.
fn without(binary: &[u8], offset: usize, len: usize, folder: &Path) -> Result<Output> {
    let (bytes, path) = (folder.join("bytes"), folder.join("without"));
    let mut changed = binary.to_vec();
    changed[offset..offset + len].fill(0x90);
    std::fs::write(&bytes, changed)?;
    install(&bytes, &path)?;
    run(&mut Command::new(path))
}

/// What a random program was found to be.
#[derive(Default)]
struct Tally {
    sliced: usize,
    outside: usize,
    inside: usize,
    mattered: usize,
}

fn random_program(seed: u64, workshop: &Workshop, tally: &mut Tally) -> Result<()> {
    let program = program(seed);
    let folder = workshop.folder(&seed.to_string())?;
    let (source, built, path) = (folder.join("random.s"), folder.join("random"), folder.join("log"));
    std::fs::write(&source, &program.text)?;
    let mut gcc = Command::new("gcc");
    let assembled = run(gcc.args(["-nostdlib", "-static", "-o"]).arg(&built).arg(&source))?;
    ensure!(assembled.status.success(), "{}", printed(&assembled));
    let job = Job::new(&folder, [built.to_string_lossy()]);
    let native = run(&mut job.native()?)?;
    ensure!(native.stdout.len() == 8, "{}", printed(&native));
    let recorded = run(&mut job.recorded(&path, &["--interval", if seed.is_multiple_of(2) { "10M" } else { "200" }])?)?;
    ensure!(recorded.stdout == native.stdout, "{}", printed(&recorded));
    let opened = Opened::new(&path)?;
    // The write is what is asked about.
    let mut written = None;
    for &interval in opened.log.intervals(opened.thread)? {
        for placed in opened.log.interval(IntervalId { thread: opened.thread, interval })?.records().flatten() {
            if let Record::Syscall { number: 1, args, .. } = placed.record {
                written = Some((Place { tid: opened.thread.tid, interval, position: placed.position }, args[1]));
            }
        }
    }
    let (place, addr) = written.context("the program writes nothing")?;
    let binary = std::fs::read(&built)?;
    let file = object::File::parse(&*binary)?;
    let labels = labels(&file);
    let numbers: HashMap<u64, usize> =
        (0..program.deciding.len()).filter_map(|number| Some((*labels.get(&format!("i{number}"))?, number))).collect();
    ensure!(numbers.len() == program.deciding.len(), "labels are missing");
    let slots = *labels.get("slots").context("no slots")?;
    ensure!((slots..slots + 8 * SLOTS as u64).contains(&addr), "{addr:#x} is written");
    let mut execution = Execution::of(&opened.tools, &opened.log, opened.thread, Some(place))?;
    find_parents(&mut execution, &program, &numbers)?;
    let criterion = Criterion { place, atoms: Atoms::NONE, memory: vec![(addr, 8)], call: None, here: None };
    let mut full = BTreeSet::new();
    for kind in KINDS {
        full = compare(&opened, &execution, &criterion, kind)?;
        tally.sliced += full.len();
    }
    // What is not in the full slice, and makes nothing but values, can go.
    let is_value = execution.only_makes_values();
    let text = file
        .segments()
        .find(|segment| segment.address() <= labels["_start"] && labels["_start"] < segment.address() + segment.size());
    let text = text.context("no code")?;
    let mut all: HashMap<u64, (usize, bool, bool)> = HashMap::new();
    for (at, executed) in execution.executed.iter().enumerate() {
        let entry = all.entry(executed.instruction.ip()).or_insert((executed.instruction.len(), true, false));
        entry.1 &= is_value.contains(&at);
        entry.2 |= full.contains(&at);
    }
    for (ip, (len, is_value, is_inside)) in all {
        if !is_value || !program.can_go[numbers[&ip]] {
            continue;
        }
        let offset = (text.file_range().0 + (ip - text.address())) as usize;
        let other = without(&binary, offset, len, &folder)?;
        let is_same = other.stdout == native.stdout;
        if is_inside {
            tally.inside += 1;
            tally.mattered += usize::from(!is_same);
        } else {
            tally.outside += 1;
            ensure!(
                is_same,
                "without i{} at {ip:#x}, which is not in the full slice, it is {:x?}",
                numbers[&ip],
                other.stdout
            );
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn random_programs(name: &str, seeds: std::ops::Range<u64>) -> Result<()> {
    let workshop = Workshop::new(name)?;
    let mut tally = Tally::default();
    for seed in seeds {
        random_program(seed, &workshop, &mut tally).with_context(|| format!("program {seed}"))?;
    }
    let Tally { sliced, outside, inside, mattered } = tally;
    println!("{sliced} in slices; {outside} outside left out, {inside} inside, of which {mattered} mattered");
    ensure!(sliced > 1000 && outside > 100 && mattered > 50, "{sliced}, {outside}, {inside}, {mattered}");
    workshop.done()
}

/// A value in memory that another process can change, too, is not said to be surely of this one.
fn shared_memory() -> Result<()> {
    let workshop = Workshop::new("slicing-shared")?;
    let program = build_named("analyses/shared.c", &["-O1"], &workshop.path)?;
    for (how, is_said) in [("together", true), ("alone", false)] {
        let log = workshop.path.join(how);
        run(&mut Job::new(&workshop.path, [&*program.to_string_lossy(), how]).recorded(&log, &[])?)?;
        let found = run(Command::new(binary()?).arg("slice").arg(&log))?;
        let text = String::from_utf8_lossy(&found.stdout);
        ensure!(text.contains("shared.c:11") && text.contains("*word = 8;"), "{}", printed(&found));
        ensure!(text.contains("mapped as shared") == is_said, "{how}: {text}");
    }
    workshop.done()
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let trial = |name: String, body: Box<dyn FnOnce() -> Result<()> + Send>| {
        Trial::test(name, move || body().map_err(|e| Failed::from(format!("{e:#}"))))
    };
    let real = |name: &'static str, command: &'static [&'static str]| {
        let job = |workshop: &Workshop| Ok(Job::new(&workshop.folder("run")?, command.iter().copied()));
        trial(format!("real_{name}"), Box::new(move || self::real(name, true, job)))
    };
    let small = |name: &'static str, flags: &'static [&'static str]| {
        let job = move |workshop: &Workshop| {
            let program = build_named(name, flags, &workshop.path)?;
            Ok(Job::new(&workshop.folder("run")?, [program.to_string_lossy()]))
        };
        trial(name.to_owned(), Box::new(move || self::real(&name.replace('/', "-"), false, job)))
    };
    let mut trials = vec![
        trial("random".to_owned(), Box::new(|| random_programs("slicing-random", 0..PROGRAMS))),
        trial("random_many".to_owned(), Box::new(|| random_programs("slicing-random-many", PROGRAMS..MANY)))
            .with_ignored_flag(true),
        trial("shared_memory".to_owned(), Box::new(shared_memory)),
    ];
    let programs = vec![
        real("true", &["/bin/true"]),
        real("bc", &["bc", "-l", "/dev/null"]),
        real("gawk", &["mawk", "BEGIN { for (i = 0; i < 40; i++) s = s sqrt(i); print length(s) }"]),
        small("instructions/gathers.c", &["-mavx2"]),
        small("instructions/x87.c", &[]),
        small("instructions/string_prefixes.c", &[]),
    ];
    trials.extend(one_of(3, programs));
    Ok(trials)
}
