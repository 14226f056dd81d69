//! Numbers and bits by their names.

use bugnet_system_calls::names::Names;

/// A number by its name.
pub(super) fn number(names: &Names, value: u64) -> String {
    let found = names.iter().find(|(number, _)| u64::from(number.cast_unsigned()) == value & 0xffff_ffff);
    found.map_or_else(|| (value as i32).to_string(), |(_, name)| (*name).to_owned())
}

/// The names of the bits that are set. What has no name is a number.
pub(super) fn bits(names: &Names, value: u64) -> String {
    let mut left = value;
    let mut set = Vec::new();
    for (bit, name) in names.iter().filter(|(bit, _)| *bit != 0) {
        let bit = u64::from(bit.cast_unsigned());
        if left & bit == bit {
            left &= !bit;
            set.push((*name).to_owned());
        }
    }
    if left != 0 {
        set.push(format!("{left:#x}"));
    }
    match (set.is_empty(), names.first()) {
        (true, Some((_, zero))) => (*zero).to_owned(),
        _ => set.join("|"),
    }
}
