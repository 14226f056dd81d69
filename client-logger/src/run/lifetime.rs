//! How a process begins, goes on as a forked child, and ends: each floor's part of that, in order.

use crate::base::light;
use crate::base::lock::Mutex;
use crate::base::options::{self, Options};
use crate::base::process::{self, OfProcess, current_pid};
use crate::base::turns;
use crate::base::warn;
use crate::kernel::limits;
use crate::kernel::streams::{self, Streams};
use crate::log::code::{self, Code};
use crate::log::recording::{self, Recording};
use crate::log::spare;
use crate::log::{ended, handover, origin};
use crate::picture::protections::{PROTECTIONS, Protections};
use crate::picture::shared_code::{SHARED, SharedMappings};
use crate::picture::{ending, epochs, stack_move};
use crate::run::snapshot;
use bugnet_dr::process::thread_id;
use bugnet_format::process::{Origin, ProcessInfo};
use bugnet_format::types::{Pid, ProcessId, Tid};
use hashbrown::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;

/// How many threads had an id so far.
static THREAD_IDS: OfProcess<Mutex<HashMap<u32, u32>>> = OfProcess::none();

/// Sets up the process's part of the log.
pub fn start(mut given: Options) {
    if let Some(soft) = given.stack_limit {
        stack_move::limit(soft);
    }
    let beginning = origin::beginning();
    beginning.name_process();
    limits::start(&beginning.limits);
    let origin = light::of_process().map_or(beginning.origin, |light| light.header.origin());
    let info = beginning.describe(origin);
    let (mut id, mut folder) = (ProcessId { pid: Pid(current_pid()), program: 0 }, PathBuf::new());
    let code = origin::make_folder(&given.log, id.pid.0, &info).and_then(|made| {
        (id, folder) = made;
        Code::create(&folder, given.keep)
    });
    let mut over = None;
    let code = code.unwrap_or_else(|why| {
        warn(&format!("{} (process {}) is not recorded: {why}", info.program, id.pid));
        if folder.as_os_str().is_empty() {
            // Nor are those that it starts: nothing could say what they come from.
            given.follow = false;
        } else {
            origin::mark_unrecorded(&folder, &info, &why);
        }
        over = Some(Some(why));
        Code::closed()
    });
    options::set(given);
    handover::begin();
    code::begin(code);
    recording::begin(Recording::new(id, folder, info, over));
    let inherited = light::of_process().map(|light| light.streams.clone());
    streams::begin(inherited.map_or_else(|| Streams::begin(&beginning.streams), |text| Streams::listed(&text)));
    PROTECTIONS.set(Protections::default());
    SHARED.set(SharedMappings::default());
    process::begin();
    begin_alone();
}

/// What a process begins with, or a forked child goes on with, whatever came before.
fn begin_alone() {
    ended::begin();
    epochs::begin(light::first_interval(light::first_part()));
    ending::forget();
    snapshot::begin();
    THREAD_IDS.set(Mutex::default());
}

/// A forked child goes on, with a log of its own. Returns whether it is recorded.
pub fn forked() -> bool {
    process::begin();
    spare::forget();
    if !light::forked() {
        // Nothing says what it did.
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    if !options::get().follow {
        code::of_process().abandon();
        recording::leave();
        return false;
    }
    let mut parents_code = code::of_process();
    let is_over = recording::over();
    // A child that is not recorded has no code.
    let code_pages = if is_over { 0 } else { parents_code.seq().0 };
    let mut info: ProcessInfo = origin::beginning().describe(Origin::Fork { from: recording::id(), code_pages });
    if is_over {
        // The code cache holds blocks without checks.
        info.unrecorded = Some(format!("the recording of process {} had ended before it forked", recording::id()));
    }
    let made = origin::make_folder(&options::get().log, current_pid(), &info);
    let made = made.and_then(|(id, folder)| {
        let code = if is_over { Code::closed() } else { parents_code.fork(&folder)? };
        Ok((id, folder, code))
    });
    parents_code.abandon();
    drop(parents_code);
    let (id, folder, code) = match made {
        Ok(made) => made,
        Err(why) => {
            warn(&format!("process {} is not recorded: {why}", current_pid()));
            recording::leave();
            return false;
        }
    };
    let over = is_over.then(|| Some(recording::why_over()).filter(|why| !why.is_empty()));
    code::begin(code);
    recording::begin(Recording::new(id, folder, info, over));
    let streams = streams::of_process().clone();
    streams::begin(streams);
    PROTECTIONS.fork(Protections::fork);
    SHARED.fork(SharedMappings::fork);
    begin_alone();
    !is_over
}

/// What the log calls the thread with this context of DynamoRIO's, which begins. Its id may be that of one that has ended.
pub fn name_thread(context: *mut c_void) -> Tid {
    // SAFETY: the caller's context of DynamoRIO's.
    let id = unsafe { thread_id(context) };
    let of_process = light::of_process().map(|light| light.header.process.pid.0);
    let id = turns::take_birth().or(of_process).unwrap_or(id);
    let mut ids = THREAD_IDS.get().lock();
    let threads = ids.entry(id).or_default();
    let tid = Tid::new(id, *threads);
    *threads += 1;
    drop(ids);
    tid.unwrap_or_else(|| {
        recording::end(&format!("too many threads had the id {id} before this one"));
        Tid::default()
    })
}

/// The process exits.
pub fn finish() {
    turns::give_up_turn();
    code::of_process().close();
    spare::remove_all();
}
