// Values of Rust; dies in the innermost function.
#[allow(dead_code)]
#[derive(Clone, Copy, PartialEq)]
pub enum Color {
    Red,
    Green = 5,
}

#[allow(dead_code)]
pub enum Shape {
    Circle(f64),
    Rectangle { width: u32, height: u32 },
    Nothing,
}

pub struct Point {
    pub x: i32,
    pub y: i32,
}

pub struct Pair(pub u8, pub i64);
pub struct Unit;

pub mod inner {
    pub struct Generic<T> {
        pub value: T,
        pub text: &'static str,
    }
}

#[inline(never)]
fn die(flag: bool, letter: char, byte: u8, small: i8, big: u128, float: f32, text: &str) -> usize {
    let double = -2.5f64;
    let size = text.len() + flag as usize + letter as usize + byte as usize + small as usize + big as usize;
    if size > 0 {
        // SAFETY: the program ends here, by SIGILL, which is what it is for.
        unsafe { std::arch::asm!("ud2") };
    }
    size + float as usize + double as usize
}

#[inline(never)]
fn aggregates(point: &Point, shape: Shape, other: Shape, none: Shape) -> usize {
    let pair = Pair(7, -9);
    let tuple = (1i32, "two", 3.5f32);
    let _unit = Unit;
    let _nothing = ();
    let array = [1u16, 2, 3];
    let zeros = [0u8; 20];
    let generic = inner::Generic { value: 5i32, text: "generic" };
    let some: Option<i32> = Some(5);
    let nothing: Option<i32> = None;
    let boxed: Option<&i32> = Some(&generic.value);
    let no_box: Option<&i32> = None;
    let color = Color::Green;
    let copy = Point { x: point.x, y: 8 };
    let n = die(true, 'a', 200, -5, 1 << 100, 1.5, "hello");
    n + pair.0 as usize
        + tuple.0 as usize
        + array[0] as usize
        + zeros[0] as usize
        + some.unwrap_or(0) as usize
        + nothing.unwrap_or(0) as usize
        + boxed.map_or(0, |x| *x as usize)
        + no_box.map_or(0, |x| *x as usize)
        + color as usize
        + copy.y as usize
        + generic.text.len()
        + match shape {
            Shape::Circle(r) => r as usize,
            Shape::Rectangle { width, .. } => width as usize,
            Shape::Nothing => 0,
        }
        + match other {
            Shape::Circle(r) => r as usize,
            _ => 1,
        }
        + matches!(none, Shape::Nothing) as usize
}

fn main() {
    let point = Point { x: 1, y: -1 };
    let total = aggregates(&point, Shape::Rectangle { width: 3, height: 4 }, Shape::Circle(0.5), Shape::Nothing);
    println!("{total}");
}
