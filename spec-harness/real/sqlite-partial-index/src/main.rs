//! Asks for the rows that are not 1; one of them is NULL.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use libsqlite3_sys as ffi;

unsafe extern "C" fn row(_: *mut c_void, count: c_int, values: *mut *mut c_char, _: *mut *mut c_char) -> c_int {
    assert_eq!(count, 1);
    // SAFETY: SQLite gives `count` values, each null or a string.
    let value = unsafe { *values };
    if value.is_null() {
        println!("NULL");
    } else {
        // SAFETY: as above.
        println!("{}", unsafe { CStr::from_ptr(value) }.to_str().unwrap());
    }
    0
}

fn run(database: *mut ffi::sqlite3, sql: &CStr) {
    // SAFETY: the database is open.
    let code = unsafe { ffi::sqlite3_exec(database, sql.as_ptr(), Some(row), null_mut(), null_mut()) };
    assert_eq!(code, ffi::SQLITE_OK);
}

fn main() {
    let good = std::env::args().nth(1).as_deref() == Some("good");
    let mut database = null_mut();
    // SAFETY: a fresh database in memory.
    let code = unsafe {
        ffi::sqlite3_open_v2(
            c":memory:".as_ptr(),
            &mut database,
            ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE,
            null(),
        )
    };
    assert_eq!(code, ffi::SQLITE_OK);
    run(database, c"CREATE TABLE item(size)");
    if !good {
        // The index knows the sizes that are there.
        run(database, c"CREATE INDEX known ON item(1) WHERE size NOT NULL");
    }
    run(database, c"INSERT INTO item VALUES (0), (1), (2), (NULL), (3)");
    run(database, c"SELECT size FROM item WHERE size IS NOT 1");
    // SAFETY: it is not used again.
    unsafe { ffi::sqlite3_close(database) };
}
