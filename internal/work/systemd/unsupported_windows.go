package systemd

// The commands do not compile on Windows, and fail by this name: what "batuta run" starts could not be ended there
// with all that it has started. The library does, and no part of it imports this package.
var _ = the_batuta_command_does_not_run_on_Windows_use_WSL
