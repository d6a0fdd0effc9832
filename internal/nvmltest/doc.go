// Package nvmltest builds and drives a fake of NVIDIA's libnvidia-ml.so.1, so that what reads GPUs is tested through the real
// loader and the real binding on machines without one: values that change over time, error codes, sentinels, and calls that
// never return. testdata/fakenvml.c describes the scenario file.
//
// It is for tests and demonstrations only. It needs gcc.
package nvmltest
