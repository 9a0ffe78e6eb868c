// The call for GPUs, made by XLA on a processor: stream and memory of the device are a test's, all
// else of XLA's interface is its own.
#include "jaxcuda.cpp"

#include <cstdlib>
#include <cstring>

// Bytes that were ever taken, and those that are held; whether there are none left.
extern "C" {
__attribute__((visibility("default"))) int64_t pinion_taken = 0, pinion_held = 0, pinion_full = 0;
}

namespace {

constexpr uintptr_t STREAM = 0x5eed;

thread_local const XLA_FFI_Api *real = nullptr;

XLA_FFI_Error *stream_get(XLA_FFI_Stream_Get_Args *args) {
  args->stream = (void *)STREAM;
  return nullptr;
}

XLA_FFI_Error *allocate(XLA_FFI_DeviceMemory_Allocate_Args *args) {
  const bool aligned = args->alignment <= 16; // XLA promises no more
  if (pinion_full != 0 || !aligned) {
    XLA_FFI_Error_Create_Args error{};
    error.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    error.message = aligned ? "The played device is full." : "Unsupported alignment.";
    error.errc = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    return real->XLA_FFI_Error_Create(&error);
  }
  args->data = std::malloc(args->size);
  std::memset(args->data, 0xFF, args->size);
  pinion_taken += (int64_t)args->size;
  pinion_held += (int64_t)args->size;
  return nullptr;
}

XLA_FFI_Error *release(XLA_FFI_DeviceMemory_Free_Args *args) {
  std::free(args->data);
  pinion_held -= (int64_t)args->size;
  return nullptr;
}

} // namespace

extern "C" __attribute__((visibility("default"))) XLA_FFI_Error *
pinion_jax_played(XLA_FFI_CallFrame *frame) {
  // Some versions of XLA ask so what the call is made for.
  if (frame->api == nullptr) return pinion_jax_cuda(frame);
  real = frame->api;
  XLA_FFI_Api api = *frame->api;
  api.XLA_FFI_Stream_Get = stream_get;
  api.XLA_FFI_DeviceMemory_Allocate = allocate;
  api.XLA_FFI_DeviceMemory_Free = release;
  XLA_FFI_CallFrame mine = *frame;
  mine.api = &api;
  return pinion_jax_cuda(&mine);
}
