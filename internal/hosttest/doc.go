// Package hosttest sets up the real things that tests of the readers look at: loop devices, file systems, control groups,
// FUSE servers, fake proc and sys trees. Everything is taken down again by t.Cleanup, also when the test fails.
//
// It is for tests only. Where the machine lacks what is asked for, the test is skipped with the reason; where it has it,
// a failure to set it up fails the test.
package hosttest
