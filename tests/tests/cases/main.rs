//! Tests of which there are many of a kind: one for each program in a folder, each server, each fault, each chapter of the book. A test's name has its kind before
//! it: `[threads] philosophers-plain`.

mod asm_cases;
mod book;
mod children;
mod databases;
mod differing;
mod ended_by_people;
mod everyday;
mod kernel_writes;
mod killed_waiting;
mod light;
mod light_campaigns;
mod light_ring;
mod memcheck;
mod parallel_programs;
mod patches;
mod races;
mod real_programs;
mod servers;
mod slice_bugs;
mod slicing;
mod small_programs;
mod stream;
mod threads;
mod undefined;
mod unrecorded;
mod why;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Trial};

/// The tests of a kind.
type Trials = fn() -> Result<Vec<Trial>>;

const KINDS: [(&str, Trials); 26] = [
    ("asm_cases", asm_cases::trials),
    ("book", book::trials),
    ("children", children::trials),
    ("databases", databases::trials),
    ("differing", differing::trials),
    ("ended_by_people", ended_by_people::trials),
    ("everyday", everyday::trials),
    ("kernel_writes", kernel_writes::trials),
    ("killed_waiting", killed_waiting::trials),
    ("light", light::trials),
    ("light_campaigns", light_campaigns::trials),
    ("light_ring", light_ring::trials),
    ("memcheck", memcheck::trials),
    ("parallel_programs", parallel_programs::trials),
    ("patches", patches::trials),
    ("races", races::trials),
    ("real_programs", real_programs::trials),
    ("servers", servers::trials),
    ("slice_bugs", slice_bugs::trials),
    ("slicing", slicing::trials),
    ("small_programs", small_programs::trials),
    ("stream", stream::trials),
    ("threads", threads::trials),
    ("undefined", undefined::trials),
    ("unrecorded", unrecorded::trials),
    ("why", why::trials),
];

fn main() -> Result<()> {
    let mut all = Vec::new();
    for (kind, trials) in KINDS {
        all.extend(trials().context(kind)?.into_iter().map(|trial| trial.with_kind(kind)));
    }
    libtest_mimic::run(&Arguments::from_args(), all).exit()
}
