// Package archtest holds the import rules of the project as a test: which way data flows is which way imports go. It has no
// code of its own. docs/architecture.md explains the rules; a new package gets a line in the table here.
package archtest
