// Times one algorithm of the header that GRiD 0.6.0 generates for the iiwa14; -DFN=0..4 selects it.
// usage: bench FOLDER N..., where FOLDER holds inputs.f32 and the expected results NAME.f64.
// Every measurement is a line of JSON on standard output; errors go to standard error.
#include "grid.cuh"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using T = float;
using namespace grid;
static const gridDataKind KIND = GRID_DATA_DYNAMICS;
using Data = gridData<T, KIND>;
using Model = robotModel<T>;
static const T G = static_cast<T>(-9.81);  // signed, along +z: the default of GRiD's bindings
static const int NJ = NUM_JOINTS, STRIDE = 3 * NUM_JOINTS;

#if FN == 0
#define NAME "rnea"
#define ENTRY "inverse_dynamics"
#define ALGO GRID_ALGO_INVERSE_DYNAMICS
#define HOUT h_c
#define DOUT d_c
#define ATTR init_grid_kernel_attr_inverse_dynamics
#elif FN == 1
#define NAME "aba"
#define ENTRY "aba"
#define ALGO GRID_ALGO_ABA
#define HOUT h_qdd
#define DOUT d_qdd
#define ATTR init_grid_kernel_attr_aba
#elif FN == 2
#define NAME "forward_dynamics"
#define ENTRY "forward_dynamics"
#define ALGO GRID_ALGO_FORWARD_DYNAMICS
#define HOUT h_qdd
#define DOUT d_qdd
#define ATTR init_grid_kernel_attr_forward_dynamics
#elif FN == 3
#define NAME "rnea_derivatives"
#define ENTRY "inverse_dynamics_gradient"
#define ALGO GRID_ALGO_INVERSE_DYNAMICS_GRADIENT
#define HOUT h_dc_du
#define DOUT d_dc_du
#define ATTR init_grid_kernel_attr_inverse_dynamics_gradient
#else
#define NAME "fd_derivatives"
#define ENTRY "forward_dynamics_gradient"
#define ALGO GRID_ALGO_FORWARD_DYNAMICS_GRADIENT
#define HOUT h_df_du
#define DOUT d_df_du
#define ATTR init_grid_kernel_attr_forward_dynamics_gradient
#endif
static const bool INVERSE = FN == 0 || FN == 3;  // the third input is qdd, in h_qdd
static const bool GRADIENT = FN == 3 || FN == 4;
static const int W = GRADIENT ? 2 * NUM_VEL * NUM_VEL : NUM_VEL;
using CFG = launch_cfg<ALGO>;

static double now() {
    auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(time).count();
}

// The kernel alone: the launch of GRiD's <op>_compute_only, without its checks and synchronisation.
template <int TIER> void launch_t(Data *d, Model *m, int n, int threads, T *f_ext) {
    dim3 b(n), t(threads);
    if (d->workspace_timestep_slots > 0 && n > d->workspace_timestep_slots && FN)
        b = dim3(d->workspace_timestep_slots);
#if FN == 0
    inverse_dynamics_kernel<T, TIER><<<b, t, INVERSE_DYNAMICS_DYNAMIC_SHARED_MEM_BYTES<T>()>>>(
        d->d_c, d->d_q_qd_u, STRIDE, d->d_qdd, f_ext, m, G, n);
#elif FN == 1
    aba_kernel<T, TIER><<<b, t, ABA_DYNAMIC_SHARED_MEM_BYTES<T, TIER>()>>>(
        d->d_qdd, d->d_workspace, d->d_q_qd_u, STRIDE, f_ext, m, G, n);
#elif FN == 2
    forward_dynamics_kernel<T, TIER><<<b, t, FORWARD_DYNAMICS_DYNAMIC_SHARED_MEM_BYTES<T, TIER>()>>>(
        d->d_qdd, d->d_workspace, d->d_q_qd_u, STRIDE, f_ext, m, G, n);
#elif FN == 3
    const size_t bytes = INVERSE_DYNAMICS_GRADIENT_DYNAMIC_SHARED_MEM_BYTES<T, TIER>();
    inverse_dynamics_gradient_kernel<T, TIER><<<b, t, bytes>>>(
        d->d_dc_du, d->d_workspace, d->d_q_qd_u, STRIDE, d->d_qdd, f_ext, m, G, n);
#else
    const size_t bytes = FORWARD_DYNAMICS_GRADIENT_DYNAMIC_SHARED_MEM_BYTES<T, TIER>();
    forward_dynamics_gradient_kernel<T, TIER><<<b, t, bytes>>>(
        d->d_df_du, d->d_workspace, d->d_q_qd_u, STRIDE, f_ext, m, G, n);
#endif
}

// GRiD's own host function: copies in, kernel, copy out, synchronous.
template <int TIER>
void host_t(Data *d, Model *m, int n, int threads, cudaStream_t *s, bool compressed) {
    dim3 b(n), t(threads);
#if FN == 0
    if (compressed) inverse_dynamics<T, true, true, KIND, TIER>(d, m, G, n, b, t, s);
    else inverse_dynamics<T, true, false, KIND, TIER>(d, m, G, n, b, t, s);
#elif FN == 1
    aba<T, KIND, TIER>(d, m, G, n, b, t, s);
#elif FN == 2
    forward_dynamics<T, KIND, TIER>(d, m, G, n, b, t, s);
#elif FN == 3
    if (compressed) inverse_dynamics_gradient<T, true, true, KIND, TIER>(d, m, G, n, b, t, s);
    else inverse_dynamics_gradient<T, true, false, KIND, TIER>(d, m, G, n, b, t, s);
#else
    forward_dynamics_gradient<T, false, KIND, TIER>(d, m, G, n, b, t, s);
#endif
}

static void launch(Data *d, Model *m, int n, int tier, int threads, T *f_ext) {
    if (tier == 0) launch_t<0>(d, m, n, threads, f_ext);
    else if (tier == 1) launch_t<1>(d, m, n, threads, f_ext);
    else launch_t<2>(d, m, n, threads, f_ext);
}

static void host(Data *d, Model *m, int n, int tier, int threads, cudaStream_t *s, bool compressed) {
    if (tier == 0) host_t<0>(d, m, n, threads, s, compressed);
    else if (tier == 1) host_t<1>(d, m, n, threads, s, compressed);
    else host_t<2>(d, m, n, threads, s, compressed);
}

static std::vector<char> read_file(const std::string &path) {
    FILE *f = fopen(path.c_str(), "rb");
    if (!f) {
        fprintf(stderr, "cannot read %s\n", path.c_str());
        exit(2);
    }
    fseek(f, 0, SEEK_END);
    size_t n = ftell(f);
    rewind(f);
    std::vector<char> v(n);
    if (fread(v.data(), 1, n, f) != n) exit(2);
    fclose(f);
    return v;
}

static const double *expected;
static int expected_n;
struct Error { double max, l2; };

// Largest error over the largest expected value, and the error in the 2-norm.
static Error error_of(const T *x, int n) {
    double top = 0, scale = 0, num = 0, den = 0;
    int k = std::min(n, expected_n) * W;
    for (int i = 0; i < k; i++) {
        double e = expected[i], d = std::fabs(x[i] - e);
        if (!(d < 1e300)) d = 1e300;
        top = std::max(top, d);
        scale = std::max(scale, std::fabs(e));
        num += d * d;
        den += e * e;
    }
    return {top / scale, std::sqrt(num / den)};
}

static const char *TIERS[] = {"shared", "lite", "minimal"};

static void report(int n, const char *way, const char *variant, int tier, int threads,
                   std::vector<double> us, Error e) {
    std::sort(us.begin(), us.end());
    size_t k = us.size();
    double med = us[k / 2];
    auto q = [&](double p) {  // quartiles by linear interpolation, as NumPy's
        double x = p * (k - 1);
        size_t i = (size_t)x;
        double f = x - i;
        return us[i] + (i + 1 < k ? f * (us[i + 1] - us[i]) : 0);
    };
    printf("{\"function\":\"%s\",\"N\":%d,\"way\":\"%s\",\"us\":%.3f,\"spread\":%.4f,\"error\":%.3g,"
           "\"error_l2\":%.3g,\"variant\":\"%s\",\"entry\":\"%s\",\"tier\":\"%s\",\"threads\":%d,"
           "\"min_us\":%.3f}\n",
           NAME, n, way, med, (q(.75) - q(.25)) / med, e.max, e.l2, variant, ENTRY, TIERS[tier],
           threads, us[0]);
    fflush(stdout);
}

static bool bad(const char *what) {
    cudaError_t e = cudaGetLastError();
    if (e == cudaSuccess) return false;
    fprintf(stderr, NAME ": %s: %s\n", what, cudaGetErrorString(e));
    return true;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: bench FOLDER N...\n");
        return 2;
    }
    const std::string dir = argv[1];
    auto in = read_file(dir + "/inputs.f32");
    auto ex = read_file(dir + "/" NAME ".f64");
    const T *input = reinterpret_cast<T *>(in.data());
    const int rows = in.size() / sizeof(T) / (4 * NJ);  // q qd qdd tau
    expected = reinterpret_cast<double *>(ex.data());
    expected_n = ex.size() / sizeof(double) / W;

    cudaStream_t *streams = init_grid_streams<T>();
    ATTR<T>();
    Model *model = init_robotModel<T>();
    cudaEvent_t e0, e1;
    cudaEventCreate(&e0);
    cudaEventCreate(&e1);
    for (int size = 2; size < argc; size++) {
        const int n = atoi(argv[size]);
        Data *d = init_gridData<T, KIND>(n);
        // The caller's own arrays, as GRiD's bindings take them.
        std::vector<T> q(n * NJ), qd(n * NJ), third(n * NJ), result((size_t)n * W);
        for (int k = 0; k < n; k++) {
            const T *r = input + (size_t)(k % rows) * 4 * NJ;
            memcpy(&q[k * NJ], r, NJ * sizeof(T));
            memcpy(&qd[k * NJ], r + NJ, NJ * sizeof(T));
            memcpy(&third[k * NJ], r + (INVERSE ? 2 : 3) * NJ, NJ * sizeof(T));
        }
        auto pack = [&]() {
            for (int k = 0; k < n; k++) {
                memcpy(&d->h_q_qd_u[k * STRIDE], &q[k * NJ], NJ * sizeof(T));
                memcpy(&d->h_q_qd_u[k * STRIDE + NJ], &qd[k * NJ], NJ * sizeof(T));
                if (!INVERSE) memcpy(&d->h_q_qd_u[k * STRIDE + 2 * NJ], &third[k * NJ], NJ * sizeof(T));
            }
            if (INVERSE) memcpy(d->h_qdd, third.data(), third.size() * sizeof(T));
        };
        memset(d->h_q_qd_u, 0, (size_t)n * STRIDE * sizeof(T));
        pack();
        for (int k = 0; k < n; k++)
            memcpy(&d->h_q_qd[k * 2 * NJ], &d->h_q_qd_u[k * STRIDE], 2 * NJ * sizeof(T));
        cudaMemcpy(d->d_q_qd_u, d->h_q_qd_u, (size_t)n * STRIDE * sizeof(T), cudaMemcpyHostToDevice);
        if (INVERSE) cudaMemcpy(d->d_qdd, d->h_qdd, (size_t)n * NJ * sizeof(T), cudaMemcpyHostToDevice);
        cudaDeviceSynchronize();
        if (bad("inputs")) return 1;

        auto kernel_rounds = [&](int tier, int threads, T *f_ext, int warm, int rounds, int launches) {
            std::vector<double> us;
            if (GRADIENT) {
                const size_t slots = (size_t)d->workspace_timestep_slots;
                grid_begin_l2_persisting(
                    0, d->d_workspace, GRID_WORKSPACE_BYTES_PER_TIMESTEP<T>() * slots);
            }
            for (int i = 0; i < warm; i++) launch(d, model, n, tier, threads, f_ext);
            for (int r = 0; r < rounds; r++) {
                cudaEventRecord(e0);
                for (int i = 0; i < launches; i++) launch(d, model, n, tier, threads, f_ext);
                cudaEventRecord(e1);
                cudaEventSynchronize(e1);
                float ms = 0;
                cudaEventElapsedTime(&ms, e0, e1);
                us.push_back(1e3 * ms / launches);
            }
            if (GRADIENT) grid_end_l2_persisting(0);
            return us;
        };
        auto kernel = [&](const char *variant, int tier, int threads, T *f_ext) {
            cudaMemset(d->DOUT, 0, (size_t)n * W * sizeof(T));
            auto probe = kernel_rounds(tier, threads, f_ext, 1, 1, 1);
            const int launches = probe[0] > 1e3 ? 30 : 100;  // fewer if a launch takes over 1 ms
            auto us = kernel_rounds(tier, threads, f_ext, 20, 7, launches);
            cudaMemcpy(result.data(), d->DOUT, (size_t)n * W * sizeof(T), cudaMemcpyDeviceToHost);
            if (bad(variant)) return;
            report(n, "kernel", variant, tier, threads, us, error_of(result.data(), n));
        };
        auto host_calls = [&](const char *variant, int tier, int threads, bool packed, bool compressed) {
            memset(d->HOUT, 0, (size_t)n * W * sizeof(T));
            if (INVERSE) memcpy(d->h_qdd, third.data(), third.size() * sizeof(T));
            for (int i = 0; i < 5; i++) host(d, model, n, tier, threads, streams, compressed);
            std::vector<double> us;
            for (int r = 0; r < 7; r++) {
                double t0 = now();
                for (int i = 0; i < 20; i++) {
                    if (packed) pack();
                    host(d, model, n, tier, threads, streams, compressed);
                    if (packed) memcpy(result.data(), d->HOUT, (size_t)n * W * sizeof(T));
                }
                us.push_back((now() - t0) / 20);
            }
            if (bad(variant)) return;
            report(n, "host", variant, tier, threads, us,
                   error_of(packed ? result.data() : d->HOUT, n));
        };

        // Bring the clocks up.
        for (double t = now(); now() - t < (size == 2 ? 3e5 : 5e4);) {
            launch(d, model, n, CFG::TIER, CFG::THREADS, d->d_f_ext);
            cudaDeviceSynchronize();
        }
        kernel("baked", CFG::TIER, CFG::THREADS, d->d_f_ext);
        kernel("baked, no f_ext", CFG::TIER, CFG::THREADS, nullptr);
        // GRiD advises to tune tier and threads on the GPU at hand; here for each N, by exhaustive search.
        int best_tier = CFG::TIER, best_threads = CFG::THREADS;
        double best = 1e300;
        const int widths[] = {32, 64, 96, 128, 160, 192, 256, 352};
        for (int tier = 0; tier < 3; tier++) {
            for (int w : widths) {
                auto probe = kernel_rounds(tier, w, nullptr, 1, 1, 1);
                if (bad("tuning")) continue;
                int launches = std::max(3, std::min(30, (int)(8e3 / probe[0])));
                auto us = kernel_rounds(tier, w, nullptr, 2, 3, launches);
                std::sort(us.begin(), us.end());
                if (us[1] < best) {
                    best = us[1];
                    best_tier = tier;
                    best_threads = w;
                }
            }
        }
        kernel("tuned, no f_ext", best_tier, best_threads, nullptr);

        host_calls("baked", CFG::TIER, CFG::THREADS, false, false);
        host_calls("tuned", best_tier, best_threads, false, false);
        if (INVERSE) host_calls("tuned, compressed inputs", best_tier, best_threads, false, true);
        host_calls("baked, with packing from and to caller's arrays", CFG::TIER, CFG::THREADS, true, false);
        release_gridData_members<T, KIND>(d);
        free(d);
        if (bad("end")) return 1;
    }
    return 0;
}
