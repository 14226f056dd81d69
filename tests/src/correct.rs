//! Programs without memory errors, as far as anybody knows.

use crate::bugnet::{Job, Workshop, printed, run};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;

/// A program that has no memory errors.
#[derive(Clone, Copy, Debug)]
pub struct Correct {
    /// What its test is called.
    pub name: &'static str,
    /// Program (absolute path) and arguments; `sums` is a file that it can read.
    command: &'static [&'static str],
}

/// All of them.
pub const CORRECT: [Correct; 14] = [
    Correct { name: "bc", command: &["/usr/bin/bc", "-lq", "sums"] },
    Correct {
        name: "sqlite3",
        command: &[
            "/usr/bin/sqlite3",
            ":memory:",
            "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c where x < 500) \
             insert into t select x, x * 7919 % 503 || 'x' from c; create index i on t(b); select a from t order by b limit 3;",
        ],
    },
    Correct {
        name: "python3",
        command: &[
            "/usr/bin/python3",
            "-c",
            "import json; print(len(json.dumps([{'a': i, 'b': str(i) * 3} for i in range(500)])))",
        ],
    },
    Correct {
        name: "perl",
        command: &[
            "/usr/bin/perl",
            "-e",
            "my %h; $h{$_ % 100} .= \"x$_\" for 1..2000; print length(join ',', map {$h{$_}} sort keys %h)",
        ],
    },
    Correct {
        name: "mawk",
        command: &[
            "/usr/bin/mawk",
            "BEGIN { for (i = 0; i < 2000; i++) s[i % 97] = s[i % 97] i; for (k in s) n += length(s[k]); print n }",
        ],
    },
    Correct {
        name: "lua",
        command: &[
            "/usr/bin/lua5.4",
            "-e",
            "local t = {} for i = 1, 2000 do t[#t + 1] = tostring(i) end print(#table.concat(t))",
        ],
    },
    Correct { name: "sort", command: &["/usr/bin/sort", "/usr/share/common-licenses/GPL-3"] },
    Correct { name: "grep", command: &["/bin/grep", "-c", "-i", "free\\|gnu", "/usr/share/common-licenses/GPL-3"] },
    Correct { name: "ls", command: &["/bin/ls", "-la", "/etc", "/usr/bin"] },
    Correct { name: "pigz", command: &["/usr/bin/pigz", "-k", "-c", "-p", "3", "/usr/share/common-licenses/GPL-3"] },
    Correct { name: "openssl", command: &["/usr/bin/openssl", "dgst", "-sha256", "/usr/share/common-licenses/GPL-3"] },
    Correct {
        name: "php",
        command: &[
            "/usr/bin/php",
            "-r",
            "$a = []; for ($i = 0; $i < 500; $i++) $a[] = md5($i); sort($a); echo strlen(implode(',', $a));",
        ],
    },
    Correct { name: "gzip", command: &["/bin/gzip", "-c", "/usr/share/common-licenses/GPL-3"] },
    Correct {
        name: "bash",
        command: &["/bin/bash", "-c", "for i in 1 2 3 4 5; do x=\"$x$i\"; done; echo ${x/3/three}"],
    },
];

impl Correct {
    /// Records it; the log.
    ///
    /// # Errors
    /// It fails, or the operating system's.
    pub fn record(&self, workshop: &Workshop) -> Result<PathBuf> {
        fs::write(workshop.path.join("sums"), "scale = 40\n4 * a(1)\nsqrt(2)\nquit\n").context("writing sums")?;
        let log = workshop.path.join("log");
        let recorded = run(&mut Job::new(&workshop.path, self.command.iter().copied()).recorded(&log, &[])?)?;
        ensure!(recorded.status.success(), "{}", printed(&recorded));
        Ok(log)
    }
}
