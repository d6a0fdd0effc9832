// Package torch tests ptlaunch end to end with real PyTorch: jobs that write down who their processes are, under the built
// program, compared with what ptlaunch recorded and published.
//
// It needs a Python with PyTorch (package torchenv finds it) and fails without one, because a run of the tests that never saw
// PyTorch proves little. The tests run one after the other: two at once would starve each other on a small machine.
package torch
