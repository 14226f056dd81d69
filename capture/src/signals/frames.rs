//! Handlers of the program's begin and return: their frames are as the kernel makes them, of those that it has made for ours.

use super::context::{
    CONTEXT, Context, FLAGS, FP_STATE, FRAME, GENERAL, IN_USE, MASK, MXCSR, RDI, RDX, RSI, RSP, STACK,
};
use super::{
    AltStack, Arrived, NEVER_BLOCKED, NOT_DEADLY, OURS, RAISED, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SIG_DFL, SIG_IGN,
    SIGSEGV, SS_AUTODISARM, SS_DISABLE, bit, follow_default, let_kill, on_alt_stack,
};
use crate::death;
use crate::layout::{AT_CALL, BY_FAULT, SIGNAL};
use crate::log::Record;

use crate::state;
use crate::sys;
use crate::thread;

/// A signal that has come is delivered: the program goes on in its handler, with a frame as the kernel makes it.
pub fn deliver(context: &mut Context, arrived: &Arrived) {
    begin_handler(context, arrived, AT_CALL);
}

pub(super) fn begin_handler(context: &mut Context, arrived: &Arrived, how: u64) {
    let state = state::get();
    let (all, signals) = (&mut state.signals, &mut thread::get().signals);
    let Arrived { signal, info } = arrived;
    let action = all.actions[*signal];
    if action.handler == SIG_DFL && NOT_DEADLY & bit(*signal) == 0 {
        death::killed(context, arrived);
        return;
    }
    if action.handler == SIG_DFL || action.handler == SIG_IGN {
        // The program has taken its handler away since: the kernel does what is to be done.
        if action.handler == SIG_DFL {
            death::send(*signal);
        }
        context.set_mask(signals.mask);
        return;
    }
    let before = signals.suspended.take().unwrap_or(signals.mask);
    let mut at = context.rsp() - 128;
    if action.flags & SA_ONSTACK != 0 && signals.alt.size != 0 && !on_alt_stack(&signals.alt, context.rsp()) {
        at = signals.alt.start + signals.alt.size;
    }
    let fp_bytes = context.fp_bytes();
    let fp = (at - fp_bytes) & !63;
    let frame = ((fp - FRAME) & !15) - 8;
    let mut head = [0u8; FRAME as usize];
    head[..8].copy_from_slice(&action.restorer.to_le_bytes());
    // SAFETY: the structure that the kernel has made.
    head[8..8 + CONTEXT].copy_from_slice(unsafe { core::slice::from_raw_parts(context.0.cast::<u8>(), CONTEXT) });
    let mut put = |word: usize, value: u64| head[8 + word * 8..][..8].copy_from_slice(&value.to_le_bytes());
    put(STACK, signals.alt.start);
    put(STACK + 1, if signals.alt.size == 0 { SS_DISABLE.into() } else { signals.alt.flags.into() });
    put(STACK + 2, signals.alt.size);
    put(FP_STATE, fp);
    put(MASK, before);
    if how != BY_FAULT {
        // What the kernel has there is of the signal by which this program sees calls.
        put(GENERAL + 19, 0);
        put(GENERAL + 20, 0);
        put(GENERAL + 21, signals.mask);
        put(GENERAL + 22, 0);
    }
    head[8 + CONTEXT..].copy_from_slice(info);
    // SAFETY: what the kernel has saved, and the program's stack, below what it uses.
    let state_there = unsafe { sys::copy(fp as *mut u8, context.get(FP_STATE), fp_bytes as usize) };
    if !sys::write(frame, &head) || state_there != fp_bytes as usize {
        // As the kernel: without room for the frame, the program dies.
        death::raised(SIGSEGV);
        return;
    }
    signals.mask =
        (signals.mask | action.mask | if action.flags & SA_NODEFER == 0 { bit(*signal) } else { 0 }) & !NEVER_BLOCKED;
    if signals.alt.flags & SS_AUTODISARM != 0 {
        signals.alt = AltStack { start: 0, flags: SS_DISABLE, pad: 0, size: 0 };
    }
    if action.flags & SA_RESETHAND != 0 {
        all.actions[*signal].handler = SIG_DFL;
        all.handled &= !bit(*signal);
        if RAISED & bit(*signal) == 0 {
            if *signal != OURS {
                let_kill(*signal);
            }
            follow_default(*signal, 0);
        }
    }
    context.set_mask(signals.mask);
    context.set_register(RDI, *signal as u64);
    context.set_register(RSI, frame + 8 + CONTEXT as u64);
    context.set_register(RDX, frame + 8);
    context.set_rax(0);
    context.set_register(RSP, frame);
    context.set_rip(action.handler);
    // Direction, resume and trap flags.
    context.set(FLAGS, context.get(FLAGS) & !0x1_0500);
    // Handlers begin with x87 and vector registers as programs do.
    let fresh = context.get(FP_STATE);
    sys::write(fresh + MXCSR, &0x1f80u32.to_le_bytes());
    sys::write(fresh + IN_USE, &[0; 8]);
    if let Some(mut record) =
        Record::begin(SIGNAL, *signal as u16, 64 + 18 * 8 + FRAME as usize + fp_bytes as usize + 64)
    {
        record.word(how);
        for number in 0..18 {
            record.word(context.register(number));
        }
        record.memory(frame, fp + fp_bytes - frame);
        record.end();
    }
}

/// `rt_sigreturn`: the program goes on with what its frame says.
pub fn give_back(context: &mut Context) {
    let from = context.rsp();
    let own_fp = context.get(FP_STATE);
    let mut words = [0u64; CONTEXT / 8];
    // SAFETY: room for a context.
    let copied = unsafe { sys::copy(words.as_mut_ptr().cast(), from, CONTEXT) };
    if copied != CONTEXT {
        death::raised(SIGSEGV);
        return;
    }
    for number in 0..18 {
        let mut value = words[GENERAL + number];
        if number == 17 {
            // What programs may change.
            const CHANGED: u64 = 0x0005_0dd5;
            value = value & CHANGED | context.get(FLAGS) & !CHANGED;
        }
        context.set_register(number, value);
    }
    let fp = words[FP_STATE];
    let bytes = context.fp_bytes();
    if fp != 0 {
        // SAFETY: the kernel's own frame, which is as large as the one that was made from it.
        unsafe { sys::copy(own_fp as *mut u8, fp, bytes as usize) };
    }
    let signals = &mut thread::get().signals;
    signals.mask = words[MASK] & !NEVER_BLOCKED;
    context.set_mask(signals.mask);
    let alt = AltStack { start: words[STACK], flags: words[STACK + 1] as u32, pad: 0, size: words[STACK + 2] };
    if !on_alt_stack(&signals.alt, context.rsp()) {
        signals.alt = if alt.flags & SS_DISABLE != 0 { AltStack { size: 0, ..alt } } else { alt };
    }
}
