//! Two runs of a program, one right and one wrong.
//!
//! | what one wants | where |
//! |---|---|
//! | one of them, and its counterpart in another log | [`side`] |
//! | both, with their threads side by side | [`both`] |
//! | the stores of two threads, side by side | [`stores`] |
//! | those of which the values differ | [`values`] |
//! | whether two values mean the same | [`meaning`] |
//! | what a thread did last, once more | [`retrace`] |
//! | what there is to see at a moment, in terms of the source | [`scene`] |

pub mod both;
pub mod meaning;
pub mod retrace;
pub mod scene;
pub mod side;
pub mod stores;
pub mod values;
