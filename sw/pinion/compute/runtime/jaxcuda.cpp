// Kernels of a GPU as a custom call of XLA: the driver is asked to run them on XLA's stream, with
// XLA's buffers. Nothing is copied, nothing is waited for, no Python in between.
#include <cstddef>
#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

// `cuLaunchKernel`, as the driver's interface has it since 4.0; its header is not needed for one function.
using Launch = int (*)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       void *stream, void **arguments, void **extra);

constexpr size_t MOST_ARRAYS = 32;
constexpr int64_t WARP = 32;     // samples of a block of the workspace
constexpr size_t NUMBERS = 3;    // of a kernel: its CUkernel, threads of a block, bytes of shared memory
constexpr size_t ALIGNMENT = 16; // of scratch memory, bytes: XLA refuses to promise more

// Arguments of a kernel, each of eight bytes.
struct Arguments {
  int64_t value[2 + 3 * MOST_ARRAYS];
  void *place[2 + 3 * MOST_ARRAYS];
  size_t count = 0;

  void add(int64_t number) {
    value[count] = number;
    place[count] = &value[count];
    ++count;
  }
};

// `launch` is the address of cuLaunchKernel; `bytes` an element's; `workspace` the words of a sample
// between kernels; `sizes` the elements of a sample of each input and each result. Batches below
// `crossover` are computed by `small`, a block a sample; others by `parts`, a thread a sample.
// Buffers may have any axes before those of a sample.
ffi::Error call(void *stream, ffi::ScratchAllocator scratch, int64_t launch, int64_t bytes,
                int64_t workspace, int64_t crossover, ffi::Span<const int64_t> sizes,
                ffi::Span<const int64_t> small, ffi::Span<const int64_t> parts,
                ffi::RemainingArgs in, ffi::RemainingRets out) {
  const size_t arrays = in.size() + out.size();
  if (arrays != sizes.size() || in.size() == 0 || arrays > MOST_ARRAYS) {
    return ffi::Error::InvalidArgument("Another number of arrays than the kernels have.");
  }
  int64_t address[MOST_ARRAYS];
  size_t count = 0;
  for (size_t k = 0; k < arrays; ++k) {
    size_t elements;
    if (k < in.size()) {
      auto buffer = in.get<ffi::AnyBuffer>(k);
      if (!buffer.has_value()) return buffer.error();
      elements = buffer->element_count();
      address[k] = (int64_t)(uintptr_t)buffer->untyped_data();
    } else {
      auto buffer = out.get<ffi::AnyBuffer>(k - in.size());
      if (!buffer.has_value()) return buffer.error();
      elements = (*buffer)->element_count();
      address[k] = (int64_t)(uintptr_t)(*buffer)->untyped_data();
    }
    const size_t own = elements / (size_t)sizes.begin()[k];
    if (k > 0 && own != count) return ffi::Error::InvalidArgument("Batches of different lengths.");
    count = own;
  }
  if (count == 0) return ffi::Error::Success(); // the driver launches no kernel without blocks

  const bool one_block_each = (int64_t)count < crossover && small.size() == NUMBERS;
  Arguments given;
  given.add((int64_t)count);
  for (size_t k = 0; k < arrays; ++k) {
    given.add(address[k]);
    if (one_block_each) continue;
    given.add(sizes.begin()[k]);
    given.add(1);
  }
  if (workspace > 0 && !one_block_each) {
    const size_t samples = (count + WARP - 1) / WARP * WARP;
    // It is given back when this call ends, to an allocator of this stream, which hands it to what is
    // queued later.
    auto memory = scratch.Allocate(samples * (size_t)(workspace * bytes), ALIGNMENT);
    if (!memory.has_value()) {
      return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                        "The device has no memory left between the kernels: give fewer samples.");
    }
    given.add((int64_t)(uintptr_t)*memory);
  }
  const ffi::Span<const int64_t> kernels = one_block_each ? small : parts;
  for (size_t k = 0; k + NUMBERS <= kernels.size(); k += NUMBERS) {
    const int64_t *kernel = kernels.begin() + k;
    const unsigned threads = (unsigned)kernel[1];
    const unsigned blocks =
        one_block_each ? (unsigned)count : (unsigned)((count + threads - 1) / threads);
    const int failed = ((Launch)(uintptr_t)launch)((void *)(uintptr_t)kernel[0], blocks, 1, 1, threads, 1,
                                                   1, (unsigned)kernel[2], stream, given.place, nullptr);
    if (failed != 0) {
      return ffi::Error::Internal("The driver did not start a kernel: CUDA error " +
                                  std::to_string(failed) + ".");
    }
  }
  return ffi::Error::Success();
}

} // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(pinion_jax_cuda, call,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void *>>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Attr<int64_t>("launch")
                                  .Attr<int64_t>("bytes")
                                  .Attr<int64_t>("workspace")
                                  .Attr<int64_t>("crossover")
                                  .Attr<ffi::Span<const int64_t>>("sizes")
                                  .Attr<ffi::Span<const int64_t>>("small")
                                  .Attr<ffi::Span<const int64_t>>("parts")
                                  .RemainingArgs()
                                  .RemainingRets());
