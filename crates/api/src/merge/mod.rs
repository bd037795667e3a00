//! Patches: how an object is changed by a part of it.
