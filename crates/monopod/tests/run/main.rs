//! `monopod run` as its users meet it: the real binary, real containers.

mod bad_input;
mod endings;
mod postgres;
mod recovery;
mod seeds;
mod support;
