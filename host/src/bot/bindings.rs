//! The host's side of `wit/bot.wit`, generated.

#![allow(missing_docs, unreachable_pub)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "bot",
    imports: {
        // Reads of the session wait for the store; all others are done at once.
        "avernest:bot/session": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});
