"""Code generation from graphs: instruction selection, order, register allocation, C++ text."""
