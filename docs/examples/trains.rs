// The next train of each line from now on, by a timetable. At ten to midnight, it panics.
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
struct Train {
    line: String,
    leaves: u32,
}

fn timetable() -> Vec<Train> {
    let train = |line: &str, leaves| Train { line: line.to_owned(), leaves };
    vec![train("S1", 340), train("S1", 1430), train("S2", 405), train("S2", 1390), train("S7", 600), train("S7", 1420)]
}

fn next(trains: &[Train], line: &str, now: u32) -> Option<Train> {
    trains.iter().filter(|train| train.line == line).find(|train| train.leaves >= now).cloned()
}

fn board(trains: &[Train], now: u32) -> BTreeMap<String, u32> {
    let mut board = BTreeMap::new();
    for line in ["S1", "S2", "S7"] {
        let train = next(trains, line, now).unwrap();
        board.insert(train.line, train.leaves - now);
    }
    board
}

fn main() {
    let now = std::env::args().nth(1).and_then(|now| now.parse().ok()).unwrap_or(0);
    for (line, minutes) in board(&timetable(), now) {
        println!("{line} in {minutes} minutes");
    }
}
