// What torch's C++ asks of a CUDA device: how many there are, which one is current in this thread, and its one stream.
// It is loaded before torch, whose CPU build has nothing in these two places.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cstdlib>

static thread_local c10::DeviceIndex current = 0;

static c10::DeviceIndex devices() {
  const char* count = std::getenv("REHEARSAL_DEVICES");
  return count ? std::atoi(count) : 1;
}

extern "C" int rehearsal_current_device() { return current; }
extern "C" void rehearsal_set_device(int index) { current = index; }

namespace c10::impl {
struct PretendedGuard final : DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::CUDA; }
  Device getDevice() const override { return Device(DeviceType::CUDA, current); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) current = device.index();
  }
  void setDevice(Device device) const override { uncheckedSetDevice(device); }
  Device exchangeDevice(Device device) const override {
    Device before = getDevice();
    uncheckedSetDevice(device);
    return before;
  }
  Stream getStream(Device device) const override {
    return Stream(Stream::DEFAULT, device.has_index() ? device : getDevice());
  }
  Stream getNewStream(Device device, int) const override { return getStream(device); }
  Stream exchangeStream(Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override { return devices(); }
  void record(void** event, const Stream&, const DeviceIndex, const EventFlag) const override { *event = this_event(); }
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
  static void* this_event() { return &current; }  // autograd wants an address that is not null
};
C10_REGISTER_GUARD_IMPL(CUDA, PretendedGuard)
}  // namespace c10::impl

namespace at {
struct CUDAHooks final : CUDAHooksInterface {
  CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return devices(); }
  int getNumGPUs() const override { return devices(); }
  DeviceIndex current_device() const override { return current; }
  DeviceIndex getCurrentDevice() const override { return current; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);
}  // namespace at
