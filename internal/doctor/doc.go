// Package doctor says of every source of figures whether it can be read here, why not, and what exactly would open it: a
// capability, a sysctl, a mount option, a line of a container's configuration.
//
// It is what `ptlaunch doctor` prints, and what a run's report names as its blind spots. It reads the same files as the
// sampler does, through the same readers where there is one, so that both say the same. It runs once, beside the data flow,
// and changes nothing on the machine. Whatever may hang (the GPU driver, statfs) has a deadline.
//
// Every check is a function of an exam, which holds what all of them need; Examine runs them in the order of the table.
package doctor
