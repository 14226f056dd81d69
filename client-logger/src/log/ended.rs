//! The logs of threads that have ended, if only the last epochs are kept: they go once none of theirs is.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::options;
use crate::base::process::OfProcess;
use crate::log::code::needed::is_kept;
use crate::log::writer::Ended;
use bugnet_format::types::Epoch;

static ENDED: OfProcess<Mutex<Vec<Ended>>> = OfProcess::none();

/// A process begins, or a forked child goes on.
pub fn begin() {
    ENDED.set(Mutex::default());
}

fn ended() -> MutexGuard<'static, Vec<Ended>> {
    ENDED.get().lock()
}

/// A thread has ended, of which there is this.
pub fn keep_for_now(log: Ended) {
    if options::get().keep > 0 {
        ended().push(log);
    }
}

/// An interval of this epoch has begun: takes away what there is of threads that ended before the epochs that are kept.
pub fn remove_old(now: Epoch) {
    let keep = options::get().keep;
    if keep > 0 {
        let old = |log: &mut Ended| !is_kept(log.epoch, keep, now);
        let old: Vec<Ended> = ended().extract_if(.., old).collect();
        old.into_iter().for_each(Ended::remove);
    }
}
