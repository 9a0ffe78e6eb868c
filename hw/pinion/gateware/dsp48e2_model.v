// A model of the multiplier block of UltraScale+ parts, written for Pinion after AMD's guides
// UG579 and UG974: enough of it for sums of products in columns, and nothing that they do not use.
// It stands in for the vendor's primitive in proofs and simulations.
//
// Modelled: operand, product, sum and control registers that are there once or not at all; their
// enables and synchronous resets, a reset before its enable; the signed multiplier; the four
// multiplexers in front of the adder; Z + (W + X + Y) and Z - (W + X + Y) modulo 2**48.
// Refused: every other parameter when the design is put together; every other mode while it runs:
// the sum is unknown, simulators stop, and proofs see an assertion. A port that is not here cannot
// be connected.
module DSP48E2 (
  input CLK,
  input [29:0] A, ACIN,
  input [17:0] B, BCIN,
  input [47:0] C, PCIN,
  input [26:0] D,
  input [8:0] OPMODE,
  input [3:0] ALUMODE,
  input [4:0] INMODE,
  input [2:0] CARRYINSEL,
  input CARRYIN, CARRYCASCIN, MULTSIGNIN,
  input CEA1, CEA2, CEB1, CEB2, CEC, CED, CEAD, CEM, CEP,
  input CEALUMODE, CECTRL, CEINMODE, CECARRYIN,
  input RSTA, RSTB, RSTC, RSTD, RSTM, RSTP,
  input RSTALUMODE, RSTCTRL, RSTINMODE, RSTALLCARRYIN,
  output [47:0] P, PCOUT
);
  // Defaults are the primitive's (UG974).
  parameter ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1;
  parameter CARRYINREG = 1, CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1, MREG = 1;
  parameter OPMODEREG = 1, PREG = 1;
  parameter A_INPUT = "DIRECT", B_INPUT = "DIRECT";
  parameter AMULTSEL = "A", BMULTSEL = "B", PREADDINSEL = "A";
  parameter USE_MULT = "MULTIPLY", USE_SIMD = "ONE48";
  parameter USE_PATTERN_DETECT = "NO_PATDET", AUTORESET_PATDET = "NO_RESET";
  parameter [47:0] RND = 48'h000000000000;

  // A cascade leaves from where the multiplier reads (UG579, A and B inputs), so its register is
  // the operand's. Twice registered operands and the pre-adder have no model.
  generate
    if (AREG < 0 || AREG > 1 || ACASCREG != AREG || BREG < 0 || BREG > 1 || BCASCREG != BREG
        || CREG < 0 || CREG > 1 || MREG < 0 || MREG > 1 || PREG < 0 || PREG > 1
        || ALUMODEREG < 0 || ALUMODEREG > 1 || OPMODEREG < 0 || OPMODEREG > 1
        || ADREG < 0 || ADREG > 1 || DREG < 0 || DREG > 1 || INMODEREG < 0 || INMODEREG > 1
        || CARRYINREG < 0 || CARRYINREG > 1 || CARRYINSELREG < 0 || CARRYINSELREG > 1)
    begin : registers
      dsp48e2_with_these_registers_has_no_model missing();
    end
    if (A_INPUT != "DIRECT" || B_INPUT != "DIRECT" || AMULTSEL != "A" || BMULTSEL != "B"
        || PREADDINSEL != "A" || USE_MULT != "MULTIPLY" || USE_SIMD != "ONE48"
        || USE_PATTERN_DETECT != "NO_PATDET" || AUTORESET_PATDET != "NO_RESET")
    begin : features
      dsp48e2_with_these_features_has_no_model missing();
    end
  endgenerate

  // Registers start at 0 after configuration. A single register of A or B is the second of two,
  // with the enable CEA2 or CEB2 (UG579, A and B inputs).
  reg [29:0] a_reg = 30'd0;
  reg [17:0] b_reg = 18'd0;
  reg [47:0] c_reg = 48'd0;
  reg [44:0] m_reg = 45'd0;
  reg [47:0] p_reg = 48'd0;
  reg [3:0] alumode_reg = 4'd0;
  reg [8:0] opmode_reg = 9'd0;

  wire [29:0] a = AREG == 1 ? a_reg : A;
  wire [17:0] b = BREG == 1 ? b_reg : B;
  wire [47:0] c = CREG == 1 ? c_reg : C;
  wire [3:0] alumode = ALUMODEREG == 1 ? alumode_reg : ALUMODE;
  wire [8:0] opmode = OPMODEREG == 1 ? opmode_reg : OPMODE;

  // 27 by 18 bits in two's complement; A[29:27] take no part (UG579, multiplier).
  wire signed [26:0] multiplicand = a[26:0];
  wire signed [17:0] multiplier = b;
  wire signed [44:0] product = multiplicand * multiplier;
  wire [44:0] m = MREG == 1 ? m_reg : product;

  // The multiplexers in front of the adder (UG579, W, X, Y and Z multiplexers). The product comes
  // in two parts, by X and Y, which must both be set for it: here X has all of it.
  wire takes_product = opmode[1:0] == 2'b01;
  reg [47:0] w, x, y, z;
  always @* begin
    case (opmode[8:7])
      2'b00: w = 48'd0;
      2'b01: w = p_reg;
      2'b10: w = RND;
      default: w = c;
    endcase
    case (opmode[1:0])
      2'b00: x = 48'd0;
      2'b01: x = {{3{m[44]}}, m};
      2'b10: x = p_reg;
      default: x = {a, b};
    endcase
    case (opmode[3:2])
      2'b00, 2'b01: y = 48'd0;
      2'b10: y = {48{1'b1}};
      default: y = c;
    endcase
    case (opmode[6:4])
      3'b000: z = 48'd0;
      3'b001: z = PCIN;
      3'b010: z = p_reg;
      3'b011: z = c;
      3'b101: z = {{17{PCIN[47]}}, PCIN[47:17]};
      3'b110: z = {{17{p_reg[47]}}, p_reg[47:17]};
      default: z = {48{1'bx}};
    endcase
  end

  // Z = 100 is for wider accumulators; P comes back from its register alone.
  wire takes_p = opmode[8:7] == 2'b01 || opmode[1:0] == 2'b10 || opmode[6:4] == 3'b010
    || opmode[6:4] == 3'b110;
  wire refused = takes_product != (opmode[3:2] == 2'b01) || opmode[6:4] == 3'b100
    || opmode[6:4] == 3'b111 || (takes_p && PREG != 1)
    || (alumode != 4'b0000 && alumode != 4'b0011)
    || INMODE != 5'd0 || CARRYINSEL != 3'd0 || CARRYIN;

  // Adder and subtracter (UG579, ALUMODE inputs).
  wire [47:0] terms = w + x + y;
  wire [47:0] sum = refused ? {48{1'bx}} : alumode[0] ? z - terms : z + terms;

  always @(posedge CLK) begin
    if (RSTA) a_reg <= 30'd0; else if (CEA2) a_reg <= A;
    if (RSTB) b_reg <= 18'd0; else if (CEB2) b_reg <= B;
    if (RSTC) c_reg <= 48'd0; else if (CEC) c_reg <= C;
    if (RSTM) m_reg <= 45'd0; else if (CEM) m_reg <= product;
    if (RSTP) p_reg <= 48'd0; else if (CEP) p_reg <= sum;
    if (RSTALUMODE) alumode_reg <= 4'd0; else if (CEALUMODE) alumode_reg <= ALUMODE;
    if (RSTCTRL) opmode_reg <= 9'd0; else if (CECTRL) opmode_reg <= OPMODE;
  end
  assign P = PREG == 1 ? p_reg : sum;
  assign PCOUT = P;  // the cascade leaves behind P's register (UG579, PCOUT)

`ifdef FORMAL
  always @* assert (!refused);
`elsif YOSYS
`else
  always @(posedge CLK)
    if (refused) begin
      $display("DSP48E2: opmode %b, alumode %b has no model (%m)", opmode, alumode);
      $fatal(1);
    end
`endif
endmodule
