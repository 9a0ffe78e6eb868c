// A batch through a kernel and the runtime, from file to file: what an emulated machine runs.
//
//   other_machine RUNTIME.so KERNEL.so IN OUT n layout threads
//
// IN has the inputs one after the other, OUT gets the results, both as they stand in memory. Prints
// the kernel's instruction set and, for every input, where its first number is that is not finite.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "abi.h"

static const size_t GUARD = 256; // bytes around a result, which nobody may write
static const int MARK = 0xa5;

static void *found(const char *path, const char *name) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) fprintf(stderr, "%s\n", dlerror()), exit(1);
  return symbol;
}

int main(int count, char **words) {
  if (count != 8) return 1;
  const auto run = (decltype(&pinion_run))found(words[1], "pinion_run");
  const auto first_nonfinite =
      (decltype(&pinion_first_nonfinite))found(words[1], "pinion_first_nonfinite");
  const pinion_kernel *kernel =
      ((decltype(&pinion_get_kernel))found(words[2], "pinion_get_kernel"))();
  const size_t n = strtoul(words[5], nullptr, 10);
  const int layout = atoi(words[6]);
  const size_t samples = layout == PINION_BLOCKS ? (n + 15) / 16 * 16 : n;

  std::vector<pinion_view> in, out;
  std::vector<std::vector<char>> memory;
  const auto view = [&](size_t size, size_t before) {
    return pinion_view{memory.back().data() + before, layout,
                       (int64_t)(layout == PINION_SOA ? n : size)};
  };
  printf("%s\n", kernel->isa);
  FILE *file = fopen(words[3], "rb");
  for (uint32_t k = 0; k < kernel->inputs; ++k) {
    const size_t size = kernel->input[k].size;
    memory.emplace_back(kernel->bytes * size * samples);
    if (!file || fread(memory.back().data(), 1, memory.back().size(), file) != memory.back().size())
      return 1;
    in.push_back(view(size, 0));
    printf("%lld\n", (long long)first_nonfinite(in[k].data, kernel->bytes, size * samples));
  }
  for (uint32_t k = 0; k < kernel->outputs; ++k) {
    const size_t size = kernel->output[k].size;
    memory.emplace_back(kernel->bytes * size * samples + 2 * GUARD, (char)MARK);
    out.push_back(view(size, GUARD));
  }
  const int answer = run(kernel, n, in.data(), out.data(), (unsigned)atoi(words[7]));
  if (answer) return fprintf(stderr, "pinion_run answered %d\n", answer), 1;
  file = fopen(words[4], "wb");
  for (uint32_t k = 0; k < kernel->outputs; ++k) {
    const std::vector<char> &bytes = memory[kernel->inputs + k];
    for (size_t i = 0; i < GUARD; ++i)
      if (bytes[i] != (char)MARK || bytes[bytes.size() - 1 - i] != (char)MARK)
        return fprintf(stderr, "something was written beside '%s'\n", kernel->output[k].name), 1;
    if (!file || fwrite(out[k].data, 1, bytes.size() - 2 * GUARD, file) != bytes.size() - 2 * GUARD)
      return 1;
  }
  return fclose(file);
}
