// A kernel as a custom call of XLA: buffers in, buffers out, no Python in between.
#include "abi.h"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

constexpr size_t MOST_ARRAYS = 32;

// `kernel` is the address of a pinion_kernel. Buffers may have any axes before those of a sample.
ffi::Error call(int64_t address, int64_t threads, ffi::RemainingArgs in, ffi::RemainingRets out) {
  const pinion_kernel *kernel = (const pinion_kernel *)(uintptr_t)address;
  if (in.size() != kernel->inputs || out.size() != kernel->outputs || in.size() > MOST_ARRAYS ||
      out.size() > MOST_ARRAYS || in.size() == 0) {
    return ffi::Error::InvalidArgument("Another number of arrays than the kernel has.");
  }
  pinion_view given[MOST_ARRAYS], made[MOST_ARRAYS];
  size_t count = 0;
  for (size_t k = 0; k < in.size(); ++k) {
    auto buffer = in.get<ffi::AnyBuffer>(k);
    if (!buffer.has_value()) return buffer.error();
    const size_t own = buffer->element_count() / kernel->input[k].size;
    if (k > 0 && own != count) return ffi::Error::InvalidArgument("Batches of different lengths.");
    count = own;
    given[k] = {buffer->untyped_data(), PINION_AOS, kernel->input[k].size};
  }
  for (size_t k = 0; k < out.size(); ++k) {
    auto buffer = out.get<ffi::AnyBuffer>(k);
    if (!buffer.has_value()) return buffer.error();
    made[k] = {(*buffer)->untyped_data(), PINION_AOS, kernel->output[k].size};
  }
  if (pinion_run(kernel, count, given, made, (unsigned)threads) != PINION_DONE) {
    return ffi::Error::Internal("The kernel was not run.");
  }
  return ffi::Error::Success();
}

} // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(pinion_jax, call,
                              ffi::Ffi::Bind()
                                  .Attr<int64_t>("kernel")
                                  .Attr<int64_t>("threads")
                                  .RemainingArgs()
                                  .RemainingRets());
