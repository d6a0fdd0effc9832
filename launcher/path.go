package launcher

import (
	"errors"
	"strings"
	"syscall"
)

// defaultPath is what execvp searches when PATH is unset (confstr _CS_PATH).
const defaultPath = "/bin:/usr/bin"

// shell runs files that the kernel does not know how to execute, by execvp's rule.
const shell = "/bin/sh"

// candidates lists the file names under which execvp would try word, in order. A word with a slash is tried as it is; an empty
// element of PATH means the working directory.
func candidates(word string, environ []string) []string {
	if word == "" {
		return nil
	}
	if strings.Contains(word, "/") {
		return []string{word}
	}
	path, ok := lookupEnv(environ, "PATH")
	if !ok {
		path = defaultPath
	}
	var files []string
	for dir := range strings.SplitSeq(path, ":") {
		switch {
		case dir == "":
			files = append(files, word)
		case strings.HasSuffix(dir, "/"):
			files = append(files, dir+word)
		default:
			files = append(files, dir+"/"+word)
		}
	}
	return files
}

// lookupEnv is getenv: the first entry of that name.
func lookupEnv(environ []string, name string) (string, bool) {
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// execvp calls try for each candidate by the rules of execvp(3): a file in an unknown format is given to the shell; a missing
// one is passed over; one that may not be executed is passed over too, but remembered, because "permission denied" says more
// than "not found". try starts a program and returns its pid, or the error of execve.
func execvp(argv, environ []string, try func(file string, argv []string) (int, error)) (int, error) {
	var result error = syscall.ENOENT
	denied := false
	for _, file := range candidates(argv[0], environ) {
		if missing(file) {
			continue
		}
		pid, err := try(file, argv)
		if errors.Is(err, syscall.ENOEXEC) {
			pid, err = try(shell, append([]string{shell, file}, argv[1:]...))
		}
		switch {
		case err == nil:
			return pid, nil
		case errors.Is(err, syscall.EACCES):
			denied = true
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ESTALE),
			errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ETIMEDOUT):
			result = err
		default:
			return 0, err
		}
	}
	if denied {
		return 0, syscall.EACCES
	}
	return 0, result
}

// missing saves a fork for the elements of PATH that do not have the file. In doubt it says no: execve decides.
func missing(file string) bool {
	return errors.Is(syscall.Access(file, 0), syscall.ENOENT)
}

// startCode is the exit code for a command that could not be started.
func startCode(err error) int {
	if errors.Is(err, syscall.ENOENT) {
		return CodeNotFound
	}
	return CodeNotExecutable
}

// startMessage says in a line why the command could not be started.
func startMessage(word string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT) && !strings.Contains(word, "/"):
		return "command not found"
	case err == nil:
		return ""
	}
	return err.Error()
}
