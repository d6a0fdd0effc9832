package model

func (b *Builder) rates(f *Frame) {}
